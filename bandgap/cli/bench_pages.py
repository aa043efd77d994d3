"""`bandgap bench pages`: times of the dashboard's script runs in a large workspace, and the memory that they need."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.bars import progress_bars
from bandgap.foundation.errors import BandgapError

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
    from bandgap.jobs.sample_workspace import build_workspace
    from bandgap.jobs.serve import app_folder

    with tempfile.TemporaryDirectory(prefix="bandgap-pages-") as folder:
        with progress_bars() as progress:
            made = build_workspace(Home(Path(folder)), structures=structures, runs=runs, progress=progress)
        choices = {"ws": made.id, "data": made.dataset, "run": made.runs[0], "prediction": made.prediction}
        choices["runs"] = ",".join(made.runs[:COMPARED])
        found = subprocess.run(
            [sys.executable, str(app_folder() / "timing.py"), json.dumps(choices), str(visits)],
            env={**os.environ, "BANDGAP_HOME": folder, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if found.returncode:
        raise BandgapError(f"The pages could not be visited: {found.stderr.strip().splitlines()[-1:]}")
    result: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    result["settings"] = {"structures": structures, "runs": runs, "visits": visits}
    print_pages(result)
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=1), encoding="utf-8")


def print_pages(result: dict[str, Any]) -> None:
    """Print a row for every page, the memory and what should not be loaded."""
    import numpy as np
    from rich.console import Console
    from rich.table import Column, Table

    names = ("first (ms)", "median (ms)", "p95 (ms)", "p95 of the processor (ms)")
    table = Table("page", *(Column(name, justify="right") for name in names), box=None)
    for page, times in result["pages"].items():
        clock, processor = 1e3 * np.array(times["clock_s"]), 1e3 * np.array(times["processor_s"])
        row = (1e3 * times["first_s"], np.median(clock), np.quantile(clock, 0.95), np.quantile(processor, 0.95))
        table.add_row(page, *(f"{value:.0f}" for value in row))
    Console().print(table)
    settings = result["settings"]
    typer.echo(
        f"{settings['structures']:,} structures, {settings['runs']} finished runs, {settings['visits']} visits of each "
        f"page. Peak memory of the process: {result['memory_MB']:.0f} MB. Heavy packages loaded: "
        f"{', '.join(result['heavy']) or 'none'}."
    )
