"""`python -m benchmarks group`: waits of five people who share a server."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.cli.report import print_table, write_figures


def group(
    seed: Annotated[int, typer.Option(help="Seed of the requests.")] = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Let five people request 40 jobs of a server, and print how long each waited.

    Before: the same requests and durations in the order of the requests, one training and one
    short job at a time. After: measured, with turns and two of each side by side.
    """
    from benchmarks.group import paired_rows, run_group

    with (
        tempfile.TemporaryDirectory(prefix="bandgap-group-") as folder,
        progress_bars() as progress,
    ):
        result = run_group(Path(folder), seed=seed, progress=progress)
    columns = ["mean (s) before", "after", "longest (s) before", "after"]
    columns += ["most jobs of another before", "after"]
    print_table(("person", "jobs", *columns), paired_rows(result))
    typer.echo(f"Jobs by their end: {result['states']}.")
    write_figures(json_file, result)
