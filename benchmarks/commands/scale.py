"""`python -m benchmarks predict` and `scale`: speed of prediction, and growth with size."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

PAGES = ("data", "predict")
SIZES = [1000, 4000, 16000, 64000]

Model = Annotated[Path, typer.Option(metavar="DIR", help="Run folder of `bandgap transfer`.")]
File = Annotated[
    Path, typer.Option(metavar="FILE", help="Structures, as `bandgap predict` takes them.")
]


def predict(
    model: Annotated[
        list[Path],
        typer.Option(
            metavar="DIR", help="Run folder, or name of a shipped model. May be repeated."
        ),
    ],
    structures: File,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A checkout of another version, timed in turn with this one."
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Runs of each version. Medians are compared.")
    ] = 3,
    jobs: Annotated[
        list[int], typer.Option(min=1, help="Number of processes. May be repeated.")
    ] = [1],  # noqa: B006
    json_file: options.JsonFile = None,
) -> None:
    """Measure how many structures `bandgap predict` predicts per second, with an empty cache.

    Time counts from the file of structures to the table; those per CPU second are those a second
    per core. Ratios are printed with and without the start of the command.
    """
    from benchmarks.prediction_speed import SpeedBenchmark, run_speed

    results = {}
    for folder in model:
        config = SpeedBenchmark(folder, structures, against, repeats=repeats, jobs=tuple(jobs))
        with progress_bars() as progress:
            results[str(folder)] = run_speed(config, progress=progress)
        typer.echo(folder)
        print_speed(results[str(folder)])
    write_figures(json_file, results)


def print_speed(result: dict[str, Any]) -> None:
    """Print a row for each version and number of processes, and ratios to the first row."""
    rows = []
    n = result["n"]
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
        "version",
        "wall clock (s)",
        "CPU (s)",
        "per second",
        "per CPU second",
        "peak (MB)",
    )
    print_table(columns, rows)
    (first, first_figures), *other_runs = result["runs"].items()
    for name, figures in other_runs:
        ratio, work = (figures[key] / first_figures[key] for key in ("clock_s", "processor_s"))
        sentence = (
            f"{first} is {ratio:.2f} times as fast as {name} in wall-clock time, "
            f"{work:.2f} times in CPU time"
        )
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
            "Wall-clock time of the start, which is the prediction of one structure: "
            f"{', '.join(starts)}."
        )
    typer.echo(
        f"{n:,} structures; load of the machine {result['load']:.1f}; "
        "medians without the first run."
    )


def _later(measured: dict[str, float], key: str) -> float:
    """Return the seconds after the start of the command."""
    return max(measured[key] - measured[f"start_{key}"], 1e-9)


def scale(
    model: Model,
    structures: File,
    sizes: Annotated[list[int], typer.Option("--n", min=1, help="Numbers of structures.")] = SIZES,
    pages: Annotated[bool, typer.Option(help="Also measure the pages Data and Predict.")] = True,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the result to this file, .png or .svg."),
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Measure how time and peak memory grow with the number of structures.

    Measures check, featurize, train-source, predict and pages of the dashboard, and prints slopes.
    If the file has too few structures, copies with displaced atoms are added. Takes half an hour
    or more.
    """
    from benchmarks.page_times import PageScale
    from benchmarks.scale import ScaleBenchmark, above, draw_scale, run_scale

    config = ScaleBenchmark(model, structures, tuple(sizes))
    rows: list[dict[str, Any]] = []

    def store_row(row: dict[str, Any]) -> None:
        rows.append(row)
        write_figures(json_file, {"rows": rows})

    with (
        progress_bars() as progress,
        tempfile.TemporaryDirectory(prefix="bandgap-pages-") as folder,
    ):
        page_scale = PageScale(Path(folder) / "home", PAGES) if pages else None
        run_scale(config, pages=page_scale, on_row=store_row, progress=progress)
    print_scale(rows)
    for sentence in above(rows):
        typer.echo(f"Warning: {sentence}", err=True)
    if figure is not None:
        draw_scale(rows, figure)
        typer.echo(f"The figure is in {figure}.")


def print_scale(rows: list[dict[str, Any]]) -> None:
    """Print a row for each task and size, and the slopes on logarithmic scales."""
    from benchmarks.prediction_speed import slopes

    cells = []
    for row in sorted(rows, key=lambda row: [r["task"] for r in rows].index(row["task"])):
        seconds = (
            f"{row[name]:.1f}" if row[name] >= 1 else f"{row[name]:.3f}"
            for name in ("clock_s", "processor_s")
        )
        cells.append((row["task"], f"{row['n']:,}", *seconds, f"{row['peak_MB']:.0f}"))
    print_table(("task", "structures", "wall clock (s)", "CPU (s)", "peak (MB)"), cells)
    memory = slopes(rows, "peak_MB")
    for task, slope in slopes(rows, "processor_s").items():
        typer.echo(
            f"{task}: CPU time grows with the number of structures to the power {slope:g}, "
            f"memory to the power {memory[task]:g}."
        )
