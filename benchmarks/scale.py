"""Growth of time and memory with the number of structures, for commands and pages.

Each command runs in a separate process with an empty data directory. The caller gives a function
that measures pages with the same structures (`page_times`).
"""

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures import StructureRecord, read_paths
from benchmarks.prediction_speed import measure, slopes, write_copies

COMMANDS: Final = ("check", "featurize", "train-source", "predict")
EPOCHS: Final = 5  # Of train-source: early stopping would change the time.
LABEL: Final = "gap_eV"
# Largest slopes that are accepted: of time, and of the memory of predict.
MOST_TIME = 1.05
MOST_MEMORY = 0.2
_MB = 1e6


@dataclass(frozen=True)
class ScaleBenchmark:
    """Run folder, file of structures, numbers of structures, and commands to measure."""

    model: Path
    structures: Path
    sizes: tuple[int, ...] = (1000, 4000, 16_000, 64_000)
    commands: tuple[str, ...] = COMMANDS

    def __post_init__(self) -> None:
        if not {*self.commands} <= {*COMMANDS} or min(self.sizes, default=0) < 1:
            raise ConfigError(
                f"benchmark scale: commands {', '.join(self.commands)}; "
                f"sizes {', '.join(map(str, self.sizes))}. "
                f"Accepted: {', '.join(COMMANDS)}; sizes from 1."
            )


OnRow = Callable[[dict[str, Any]], None]
Pages = Callable[[Path, int, Progress], Iterable[tuple[str, float, float, int]]]


def run_scale(
    config: ScaleBenchmark,
    *,
    pages: Pages | None = None,
    on_row: OnRow = lambda row: None,
    progress: Progress = no_progress,
) -> list[dict[str, Any]]:
    """Return a row for each task and size: wall-clock seconds, CPU seconds and peak memory.

    If the file has too few structures, copies with displaced atoms are added. Gaps are made up.

    Parameters
    ----------
    pages
        Yields name, wall-clock seconds, CPU seconds and bytes of each page for a file of a size.
    on_row
        Called with each row when it is measured.
    """
    records = [record for record in read_paths([config.structures]) if record.status != "refused"]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="bandgap-scale-") as folder:
        for size in config.sizes:
            file = Path(folder) / f"{size}.extxyz"
            write_copies(file, records, size, gaps=True)
            command_rows = _commands(config, file, records, size, progress=progress)
            page_rows = pages(file, size, progress) if pages is not None else ()
            for task, clock_s, processor_s, peak_bytes in itertools.chain(command_rows, page_rows):
                rows.append(_row(task, size, clock_s, processor_s, peak_bytes))
                on_row(rows[-1])
            file.unlink()
    return rows


def _commands(
    config: ScaleBenchmark,
    file: Path,
    records: Sequence[StructureRecord],
    size: int,
    *,
    progress: Progress,
) -> Iterator[tuple[str, float, float, int]]:
    elements = sorted(
        {str(symbol) for record in records if record.atoms for symbol in record.atoms.symbols}
    )
    out = file.with_suffix("")
    settings: dict[str, tuple[object, ...]] = {
        "check": (file,),
        "featurize": (
            *("--structures", file),
            *("--species", *elements),
            *("--out", out.with_suffix(".npz")),
        ),
        "train-source": (
            *("--structures", file),
            *("--label", LABEL),
            *("--species", *elements),
            *("--max-epochs", EPOCHS),
            *("--device", "cpu"),
            *("--out", out / "source"),
        ),
        "predict": (
            *("--model", config.model),
            *("--structures", file),
            *("--out", out.with_suffix(".csv")),
        ),
    }
    for task in config.commands:
        progress(Update(f"{task} of {size:,} structures"))
        measured = measure((task, *settings[task]))
        yield task, measured.clock_s, measured.processor_s, measured.peak_bytes


def _row(task: str, n: int, clock_s: float, processor_s: float, peak_bytes: int) -> dict[str, Any]:
    return {
        "task": task,
        "n": n,
        "clock_s": clock_s,
        "processor_s": processor_s,
        "peak_MB": peak_bytes / _MB,
    }


def above(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each slope that is too large; times are CPU times."""
    memory = slopes(rows, "peak_MB").get("predict", 0.0)
    sentences = [
        f"{task}: time grows with the power {slope:g}. Accepted: at most {MOST_TIME:g}."
        for task, slope in slopes(rows, "processor_s").items()
        if slope > MOST_TIME
    ]
    if memory > MOST_MEMORY:
        sentences.append(
            f"predict: memory grows with the power {memory:g}. Accepted: at most {MOST_MEMORY:g}."
        )
    return sentences


def draw_scale(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw CPU time and peak memory over the number of structures, on logarithmic scales.

    `path` ends with .png or .svg. Raises ConfigError if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError(
            "A figure needs matplotlib, which is not installed. Run pip install matplotlib."
        ) from None
    figure = Figure(figsize=(11.0, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, name, label in zip(
        axes, ("processor_s", "peak_MB"), ("CPU time (s)", "peak memory (MB)"), strict=True
    ):
        slope_of = slopes(rows, name)
        for task in dict.fromkeys(str(row["task"]) for row in rows):
            rows_of_task = [row for row in rows if row["task"] == task]
            label_of_line = f"{task} ({slope_of[task]:.2f})" if task in slope_of else task
            style = "--" if task.startswith("page") else "-"
            axis.plot(
                [row["n"] for row in rows_of_task],
                [row[name] for row in rows_of_task],
                style,
                marker="o",
                ms=4,
                label=label_of_line,
            )
        axis.set(xscale="log", yscale="log", xlabel="structures", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            fontsize=8,
            title="task (slope)",
            title_fontsize=8,
        )
    figure.savefig(
        path, dpi=130, metadata={"Software": None} if path.suffix == ".png" else {"Date": None}
    )
