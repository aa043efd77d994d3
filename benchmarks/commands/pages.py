"""`python -m benchmarks pages`: times of the dashboard's pages in a large workspace."""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures

COMPARED = 4  # runs on the page Compare


def pages(
    structures: Annotated[int, typer.Option(help="Structures of the large data set.")] = 50_000,
    runs: Annotated[int, typer.Option(help="Finished runs.")] = 200,
    visits: Annotated[int, typer.Option(min=1, help="Visits of each page.")] = 50,
    json_file: options.JsonFile = None,
) -> None:
    """Time script runs of each page in a workspace of many structures and runs.

    Also measures memory and lists heavy modules that were loaded. The workspace is in a temporary
    folder. Two runs are trained, the others are copies.
    """
    from bandgap.jobs.home import Home
    from benchmarks.page_times import visit
    from benchmarks.sample_workspace import build_workspace

    with tempfile.TemporaryDirectory(prefix="bandgap-pages-") as folder:
        with progress_bars() as progress:
            workspace = build_workspace(
                Home(Path(folder)), structures=structures, runs=runs, progress=progress
            )
        choices = {
            "ws": workspace.id,
            "data": workspace.dataset,
            "run": workspace.runs[0],
            "prediction": workspace.prediction,
        }
        choices["runs"] = ",".join(workspace.runs[:COMPARED])
        result = visit(Home(Path(folder)), choices, visits=visits)
    result["settings"] = {"structures": structures, "runs": runs, "visits": visits}
    print_pages(result)
    write_figures(json_file, result)


def print_pages(result: dict[str, Any]) -> None:
    """Print a row for each page, the memory, and heavy packages that were loaded."""
    import numpy as np

    columns = ("page", "first (ms)", "median (ms)", "p95 (ms)", "p95 of CPU time (ms)")
    rows = []
    for page, times in result["pages"].items():
        clock = 1e3 * np.array(times["clock_s"])
        processor = 1e3 * np.array(times["processor_s"])
        row = (
            1e3 * times["first_s"],
            np.median(clock),
            np.quantile(clock, 0.95),
            np.quantile(processor, 0.95),
        )
        rows.append((page, *(f"{value:.0f}" for value in row)))
    print_table(columns, rows)
    settings = result["settings"]
    typer.echo(
        f"{settings['structures']:,} structures, {settings['runs']} finished runs, "
        f"{settings['visits']} visits of each page. "
        f"Peak memory of the process: {result['memory_MB']:.0f} MB. "
        f"Heavy packages loaded: {', '.join(result['heavy']) or 'none'}."
    )
