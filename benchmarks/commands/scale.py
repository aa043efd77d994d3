"""The benchmarks `predict` and `scale`: structures a second, and how work and memory grow."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

PAGES = ("data", "predict")

Model = Annotated[
    Path, typer.Option(metavar="DIR", help="Run folder that `bandgap transfer` wrote.")
]
File = Annotated[
    Path, typer.Option(metavar="FILE", help="Structures, as `bandgap predict` takes them.")
]


def predict(
    model: Model,
    structures: File,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A checkout of another version, measured in turns with this one."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Times of each side; medians are compared.")
    ] = 3,
    jobs: Annotated[
        list[int], typer.Option(min=1, help="Numbers of processes; may be repeated.")
    ] = [1],  # noqa: B006
    json_file: options.JsonFile = None,
) -> None:
    """Structures that `bandgap predict` answers in a second, from files to the table, with nothing in the cache.

    Ratios are given with the start of the command, and without it.
    """
    from benchmarks.prediction_speed import SpeedBenchmark, run_speed

    config = SpeedBenchmark(model, structures, against, repeats=repeats, jobs=tuple(jobs))
    with progress_bars() as progress:
        result = run_speed(config, progress=progress)
    print_speed(result)
    write_figures(json_file, result)


def print_speed(result: dict[str, Any]) -> None:
    """Print a row for every side and number of processes, and the ratios to this version with the fewest processes."""
    rows, n = [], result["n"]
    for name, figures in result["runs"].items():
        rates = (f"{n / figures['clock_s']:,.0f}", f"{n / figures['processor_s']:,.0f}")
        rows.append(
            (
                name,
                f"{figures['clock_s']:.1f}",
                f"{figures['processor_s']:.1f}",
                *rates,
                f"{figures['peak_MB']:.0f}",
            )
        )
    columns = (
        "side",
        "clock (s)",
        "processor (s)",
        "a second",
        "a second of the processor",
        "peak (MB)",
    )
    print_table(columns, rows)
    (first, first_figures), *other_runs = result["runs"].items()
    for name, figures in other_runs:
        ratio, work = (figures[key] / first_figures[key] for key in ("clock_s", "processor_s"))
        sentence = f"{first} is {ratio:.2f} times as fast as {name} by the clock, {work:.2f} times by the processor"
        if "start_clock_s" in figures:
            ratio, work = (
                _later(figures, key) / _later(first_figures, key)
                for key in ("clock_s", "processor_s")
            )
            sentence += f"; without the start {ratio:.2f} and {work:.2f} times"
        typer.echo(f"{sentence}.")
    if "start_clock_s" in first_figures:
        starts = (
            f"{name} {figures['start_clock_s']:.1f} s" for name, figures in result["runs"].items()
        )
        typer.echo(
            f"The start, which is the prediction of one structure, by the clock: {', '.join(starts)}."
        )
    typer.echo(
        f"{n:,} structures; load of the machine {result['load']:.1f}; medians, the first run not counted."
    )


def _later(measured: dict[str, float], key: str) -> float:
    """Return the seconds after the start."""
    return max(measured[key] - measured[f"start_{key}"], 1e-9)


def scale(
    model: Model,
    structures: File,
    sizes: Annotated[list[int], typer.Option("--n", min=1, help="Numbers of structures.")] = [  # noqa: B006
        1000,
        4000,
        16000,
        64000,
    ],
    pages: Annotated[
        bool, typer.Option(help="Whether the pages Data and Predict are measured too.")
    ] = True,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the result to this file, .png or .svg."),
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Seconds and peak memory of check, featurize, train-source, predict and pages as structures grow, with slopes.

    What the file has fewer of is filled up with copies whose atoms are displaced. Takes half an hour or more.
    """
    from benchmarks.page_times import PageScale
    from benchmarks.scale import ScaleBenchmark, above, draw_scale, run_scale

    config = ScaleBenchmark(model, structures, tuple(sizes))
    rows: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        write_figures(json_file, {"rows": rows})

    with (
        progress_bars() as progress,
        tempfile.TemporaryDirectory(prefix="bandgap-pages-") as folder,
    ):
        visited = PageScale(Path(folder) / "home", PAGES) if pages else None
        run_scale(config, pages=visited, tell=keep, progress=progress)
    print_scale(rows)
    for sentence in above(rows):
        typer.echo(f"Warning: {sentence}", err=True)
    if figure is not None:
        draw_scale(rows, figure)
        typer.echo(f"drawn to {figure}")


def print_scale(rows: list[dict[str, Any]]) -> None:
    """Print a row for every task and size, and the slopes of both logarithms."""
    from benchmarks.prediction_speed import slopes

    cells = []
    for row in sorted(rows, key=lambda row: [r["task"] for r in rows].index(row["task"])):
        seconds = (
            f"{row[name]:.1f}" if row[name] >= 1 else f"{row[name]:.3f}"
            for name in ("clock_s", "processor_s")
        )
        cells.append((row["task"], f"{row['n']:,}", *seconds, f"{row['peak_MB']:.0f}"))
    print_table(("task", "structures", "clock (s)", "processor (s)", "peak (MB)"), cells)
    memory = slopes(rows, "peak_MB")
    for task, slope in slopes(rows, "processor_s").items():
        typer.echo(
            f"{task}: work grows with the number of structures to the power {slope:g}, memory to {memory[task]:g}."
        )
