"""Values of studies on disk: NAME-SCALE.csv has those of each key, .json the facts of the run.

The figure is NAME-SCALE.png. Rows, statements and verdicts are made from the values.
"""

import csv
import json
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.machine import cores
from benchmarks.studies.figures import save_figure
from benchmarks.studies.study import DRAWN, SCALES, Key, Result, Study

FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True, kw_only=True)
class StoredResult:
    """A result with when, where and from which code it was computed."""

    scale: str
    seed: int
    date: str
    machine: str
    versions: str
    commit: str
    result: Result
    figure: Path | None


def save(result: Result, *, scale: str, seed: int, folder: Path) -> StoredResult:
    """Write values, figure and facts of a result; a stored one of the same scale is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    files = files_of(result.study.name, scale, folder)
    with files["csv"].open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Key._fields, "values"])
        for key, values in result.values.items():
            if key.reading != DRAWN:
                writer.writerow([*key, " ".join(f"{value:.6g}" for value in values)])
    figure = save_figure(result, files["png"])
    facts: dict[str, Any] = {
        "scale": scale,
        "seed": seed,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "versions": ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "torch")),
        "commit": commit(),
    }
    of_result = {"seconds": result.seconds, "size": result.size}
    text = json.dumps(facts | of_result, indent=2, ensure_ascii=False)
    files["json"].write_text(text + "\n", encoding="utf-8")
    return StoredResult(result=result, figure=figure, **facts)


def load(study: Study, scale: str, folder: Path = FOLDER) -> StoredResult | None:
    """Return a stored result, or None if there is none."""
    files = files_of(study.name, scale, folder)
    if not files["json"].exists():
        return None
    facts = json.loads(files["json"].read_text(encoding="utf-8"))
    with files["csv"].open(encoding="utf-8", newline="") as file:
        values = {
            Key(*key): np.array(numbers.split(), dtype=float)
            for *key, numbers in list(csv.reader(file))[1:]
        }
    figure = files["png"] if files["png"].exists() else None
    result = Result(study, values, facts.pop("size"), facts.pop("seconds"))
    return StoredResult(result=result, figure=figure, **facts)


def files_of(name: str, scale: str, folder: Path) -> dict[str, Path]:
    """Return the files of a result: csv, json and png."""
    return {ending: folder / f"{name}-{scale}.{ending}" for ending in ("csv", "json", "png")}


def latest(study: Study, folder: Path = FOLDER) -> StoredResult | None:
    """Return the stored result of the largest scale, or None."""
    stored = (load(study, scale, folder) for scale in reversed(SCALES))
    return next(filter(None, stored), None)


def machine() -> str:
    """Return processor and number of usable cores."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    return f"{model[1] if model else processor}, {cores()} cores"


def commit() -> str:
    """Return the commit of the checkout, with " with changes" if the code differs from it."""
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    name = git("rev-parse", "--short=12", "HEAD")
    code = (f"benchmarks/studies/*.{ending}" for ending in ("py", "toml"))
    changes = git("status", "--porcelain", "--", "bandgap", *code)
    return (name or "no repository") + (" with changes" if changes else "")
