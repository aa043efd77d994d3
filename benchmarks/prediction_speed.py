"""Time and memory of commands such as `bandgap predict`, each in a separate process.

A side is a checkout of this package, so another version can be measured in the same run, in turn.
Each run starts with an empty data directory: descriptors are computed, not read from the cache.
CPU time is that of the process and its children; it depends less on the load of the machine than
wall-clock time.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bandgap
from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures import StructureRecord
from bandgap.structures.displaced import displaced
from bandgap.structures.formats.xyz import extxyz_blocks
from bandgap.structures.reading import stream_paths
from bandgap.structures.records import STREAM_LIMITS
from bandgap.structures.spool import Spool

THIS = Path(bandgap.__file__).parent.parent
DISPLACED_ANGSTROM = 0.02
_MAIN = "from bandgap.cli import main; main()"
# Starts a command, whose output goes to stderr, and prints its use of resources.
_LAUNCHER = """
import json, os, sys, time
started = time.perf_counter()
command = json.loads(sys.argv[1])
child = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(child, 0)
json.dump({"clock_s": time.perf_counter() - started, "processor_s": usage.ru_utime + usage.ru_stime,
           "maxrss": usage.ru_maxrss, "code": os.waitstatus_to_exitcode(status)}, sys.stdout)
"""


@dataclass(frozen=True)
class Measured:
    """Wall-clock and CPU seconds of a command, memory of its largest process, and its output."""

    clock_s: float
    processor_s: float
    peak_bytes: int
    output: str = ""


@dataclass(frozen=True)
class SpeedBenchmark:
    """Run folder, structures, the other checkout (None: only this one), repeats and processes."""

    model: Path
    structures: Path
    against: Path | None = None
    repeats: int = 3
    jobs: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.repeats < 1 or min(self.jobs, default=0) < 1:
            raise ConfigError(
                f"benchmark predict: {self.repeats} repeats, {self.jobs} jobs. "
                "Accepted: numbers from 1."
            )
        if self.against is not None and not (self.against / "bandgap" / "cli").is_dir():
            raise ConfigError(
                f"{self.against} is no checkout of bandgap. "
                "Give the folder that contains bandgap/cli."
            )


def measure(words: Sequence[object], *, checkout: Path = THIS, program: str = _MAIN) -> Measured:
    """Run a command of a checkout, or another program, and measure it.

    A small process starts the command, because the peak memory of a process includes the memory of
    its parent at the start.

    Parameters
    ----------
    words
        Command and options.
    checkout
        Folder of the package.
    program
        Python code that reads `words` from the command line.

    Raises
    ------
    BandgapError
        If the command fails, with the end of its output.
    """
    command = [sys.executable, "-P", "-c", program, *map(str, words)]
    with (
        tempfile.TemporaryDirectory(prefix="bandgap-bench-") as home,
        tempfile.TemporaryFile() as output,
    ):
        environment = {
            "PYTHONPATH": str(checkout),
            "BANDGAP_HOME": home,
            "OMP_NUM_THREADS": "1",
            "BANDGAP_THREADS": "1",
        }
        launched = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, json.dumps(command)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=output,
            check=True,
        )
        usage = json.loads(launched.stdout)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if usage["code"]:
        raise BandgapError(f"bandgap {words[0]} of {checkout} failed: {text[-1000:]}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Measured(usage["clock_s"], usage["processor_s"], scale * usage["maxrss"], text)


def run_speed(config: SpeedBenchmark, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Return the number of structures, and times and memory of each side and number of processes.

    The time of the start is that of a prediction of one structure: imports, loading the model and
    building its layers.
    """
    records = Spool(stream_paths([config.structures], limits=STREAM_LIMITS))
    sides = {"this": THIS} | ({} if config.against is None else {"other": config.against})
    runs = [
        (side, jobs)
        for jobs in config.jobs
        for side in sides
        if side == "this" or jobs == config.jobs[0]
    ]
    measurements: dict[str, list[tuple[Measured, Measured]]] = {
        f"{side}, {jobs} jobs": [] for side, jobs in runs
    }
    with tempfile.TemporaryDirectory(prefix="bandgap-bench-") as folder:
        one = Path(folder) / "one.extxyz"
        write_copies(one, [next(record for record in records if record.status != "refused")], 1)
        for repeat in range(config.repeats + 1):  # The first one compiles and does not count.
            for side, jobs in runs:
                options = ("--out", Path(folder) / "table.csv", "--jobs", jobs)
                words = [
                    ("predict", "--model", config.model, "--structures", f)
                    for f in (config.structures, one)
                ]
                prediction, start = (measure((*w, *options), checkout=sides[side]) for w in words)
                if repeat:
                    measurements[f"{side}, {jobs} jobs"].append((prediction, start))
            progress(Update("predicting in turn", repeat, config.repeats))
    return {
        "n": len(records),
        "load": os.getloadavg()[0],
        "runs": {
            k: _medians([prediction for prediction, _ in v]) | _starts([start for _, start in v])
            for k, v in measurements.items()
        },
    }


def write_copies(
    path: Path, records: Sequence[StructureRecord], n: int, *, gaps: bool = False
) -> None:
    """Write `n` structures as extXYZ: the records, then copies of them with displaced atoms.

    With `gaps` each has a made-up gap_eV, which falls with its number of atoms.
    """
    with path.open("w", encoding="utf-8") as file:
        for copy in range(-(-n // len(records))):
            originals = list(records[: n - copy * len(records)])
            moved = (
                displaced(originals, DISPLACED_ANGSTROM, seed=0, copy=copy) if copy else originals
            )
            keys = [
                {"id": f"{r.id}_{copy}"} | ({"gap_eV": 2 + 40 / (10 + r.n_atoms)} if gaps else {})
                for r in moved
            ]
            file.writelines(extxyz_blocks(moved, keys))


def slopes(rows: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Return by task the least-squares slope of log `name` over log n, if it has two sizes.

    >>> slopes([{"task": "t", "n": n, "s": 3.0 * n} for n in (10, 100)], "s")
    {'t': 1.0}
    """
    slope_of_task = {}
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        rows_of_task = [row for row in rows if row["task"] == task]
        x, y = (np.log([float(row[column]) for row in rows_of_task]) for column in ("n", name))
        if len(rows_of_task) > 1:
            slope_of_task[task] = round(float(np.polyfit(x, y, 1)[0]), 3) + 0.0  # Not -0.
    return slope_of_task


def _medians(measured: Sequence[Measured]) -> dict[str, float]:
    return {
        "clock_s": float(np.median([m.clock_s for m in measured])),
        "processor_s": float(np.median([m.processor_s for m in measured])),
        "peak_MB": max(m.peak_bytes for m in measured) / 1e6,
    }


def _starts(measured: Sequence[Measured]) -> dict[str, float]:
    medians = _medians(measured)
    return {"start_clock_s": medians["clock_s"], "start_processor_s": medians["processor_s"]}
