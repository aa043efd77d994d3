"""`python -m benchmarks drawing`: times of the map of structures and of the viewer in Chromium."""

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
    points: Annotated[int, typer.Option(min=1_500, help="Structures of the map.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=1, help="Drawings after the first of each.")] = 5,
    json_file: options.JsonFile = None,
) -> None:
    """Time the map of a data set, and the viewer with a crystal of 400 atoms.

    `bandgap app` is started with a temporary data directory, and Chromium draws by software. Each
    time is from the click to the drawn pixels. The first drawing also loads the code that draws.
    """
    from bandgap.jobs.home import Home
    from benchmarks.day import browser_page, dashboard
    from benchmarks.drawing import (
        N_ATOMS,
        SOFTWARE_GL,
        add_perovskites,
        add_points,
        time_map,
        time_viewer,
    )
    from benchmarks.sample_workspace import checked_crystals

    with tempfile.TemporaryDirectory(prefix="bandgap-drawing-") as folder:
        home = Home(Path(folder))
        _, crystals = checked_crystals(home)
        mapped = add_points(home, crystals, points)
        viewed = add_perovskites(home, crystals)
        with (
            dashboard(Path(folder)) as address,
            browser_page(1280, height=1800, flags=SOFTWARE_GL) as page,
        ):
            map_times, viewer_times = (
                time_drawing(page, f"{address}/data?ws={ws}&data={data}", repeats=repeats)
                for time_drawing, (ws, data) in ((time_map, mapped), (time_viewer, viewed))
            )
    rows = [
        _row(f"map of {points:,} structures", map_times),
        _row(f"viewer with {N_ATOMS} atoms", viewer_times),
    ]
    columns = ("drawing", "first (s)", "median (s)", "server's part (s)", "browser's part (s)")
    print_table(columns, rows)
    figures = {
        "points": points,
        "n_atoms": N_ATOMS,
        "map": asdict(map_times),
        "viewer": asdict(viewer_times),
    }
    write_figures(json_file, figures)


def _row(name: str, times: "DrawingTimes") -> tuple[str, ...]:
    import numpy as np

    server_s, browser_s = np.median(times.server_s[1:]), np.median(times.browser_s[1:])
    numbers = (times.totals_s[0], times.median_s, server_s, browser_s)
    return (name, *(f"{number:.2f}" for number in numbers))
