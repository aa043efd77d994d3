"""`python -m benchmarks drawing`: times of the viewer of structures in Chromium."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli import options
from bandgap.cli.report import print_table, write_figures

if TYPE_CHECKING:
    from benchmarks.drawing import DrawingTimes


def drawing(
    repeats: Annotated[int, typer.Option(min=1, help="Drawings after the first.")] = 5,
    json_file: options.JsonFile = None,
) -> None:
    """Time the viewer with a crystal of 400 atoms.

    `bandgap app` is started with a temporary data directory, and Chromium draws by software. Each
    time is from the click to the drawn pixels. The first drawing also loads the code that draws.
    """
    from bandgap.jobs.home import Home
    from benchmarks.day import browser_page, dashboard
    from benchmarks.drawing import N_ATOMS, SOFTWARE_GL, add_perovskites, time_viewer
    from benchmarks.sample_workspace import checked_crystals

    with tempfile.TemporaryDirectory(prefix="bandgap-drawing-") as folder:
        home = Home(Path(folder))
        _, crystals = checked_crystals(home)
        workspace, dataset = add_perovskites(home, crystals)
        with (
            dashboard(Path(folder)) as address,
            browser_page(1280, height=1800, flags=SOFTWARE_GL) as page,
        ):
            times = time_viewer(
                page, f"{address}/data?ws={workspace}&data={dataset}", repeats=repeats
            )
    rows = [_row(f"viewer with {N_ATOMS} atoms", times)]
    columns = ("drawing", "first (s)", "median (s)", "server's part (s)", "browser's part (s)")
    print_table(columns, rows)
    figures = {"n_atoms": N_ATOMS, "viewer": asdict(times)}
    write_figures(json_file, figures)


def _row(name: str, times: "DrawingTimes") -> tuple[str, ...]:
    import numpy as np

    server_s, browser_s = np.median(times.server_s[1:]), np.median(times.browser_s[1:])
    numbers = (times.totals_s[0], times.median_s, server_s, browser_s)
    return (name, *(f"{number:.2f}" for number in numbers))
