"""`python -m benchmarks pages`: script runs of every page in a workspace of many structures and runs."""

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
    visits: Annotated[int, typer.Option(min=1, help="Visits of every page.")] = 50,
    json_file: options.JsonFile = None,
) -> None:
    """Script runs of every page in a workspace of many structures and runs: median, p95, memory, modules.

    The workspace is made in a temporary folder; two runs are really trained, the others are copies.
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
    """Print a row for every page, the memory and what should not be loaded."""
    import numpy as np

    columns = ("page", "first (ms)", "median (ms)", "p95 (ms)", "p95 of the processor (ms)")
    rows = []
    for page, times in result["pages"].items():
        clock, processor = 1e3 * np.array(times["clock_s"]), 1e3 * np.array(times["processor_s"])
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
        f"{settings['structures']:,} structures, {settings['runs']} finished runs, {settings['visits']} visits of each "
        f"page. Peak memory of the process: {result['memory_MB']:.0f} MB. Heavy packages loaded: "
        f"{', '.join(result['heavy']) or 'none'}."
    )
