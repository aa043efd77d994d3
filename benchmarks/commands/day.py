"""`python -m benchmarks day`: clicks and seconds of a new user's first prediction."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bandgap.cli import options
from bandgap.cli.report import print_table, write_figures


def day(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the set dj_perovskite_hse, for the journey with perovskites. "
            "Default: only the demo.",
        ),
    ] = None,
    n: Annotated[int, typer.Option(min=30, help="Number of labelled perovskites.")] = 303,
    n_new: Annotated[int, typer.Option(min=1, help="Number of perovskites to predict.")] = 50,
    widths: Annotated[
        list[int], typer.Option("--width", help="Width of the window in pixels. May be repeated.")
    ] = [1280, 400],  # noqa: B006 - typer copies it
    dark: Annotated[bool, typer.Option(help="Use the dark theme.")] = False,
    pictures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a picture of each step there.")
    ] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Count the clicks and seconds from the printed address to the first prediction.

    `bandgap app` is started for each journey with an empty data directory, and Chromium walks
    through its pages as a new user does. Choosing files counts as two clicks.
    """
    from benchmarks.day import demo_journey, own_journey, perovskite_files

    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    journeys = []
    for width in widths:
        journeys.append(_walked("demo", width, demo_journey, dark=dark, pictures=pictures))
        if data is None:
            continue
        with tempfile.TemporaryDirectory(prefix="bandgap-day-") as folder:
            structures, gaps, new = perovskite_files(data, Path(folder), n=n, n_new=n_new)
            journeys.append(
                _walked(
                    "perovskites",
                    width,
                    own_journey,
                    dark=dark,
                    pictures=pictures,
                    structures=structures,
                    gaps=gaps,
                    new=[new],
                )
            )
    for journey in journeys:
        print_table(
            ("clicks", "seconds", f"{journey['name']} at {journey['width']} pixels"),
            [
                (str(step["clicks"]), f"{step['seconds']:.0f}", step["text"])
                for step in journey["steps"]
            ],
            text_columns=(f"{journey['name']} at {journey['width']} pixels",),
        )
    rows = [
        (
            journey["name"],
            str(journey["width"]),
            str(journey["clicks"]),
            f"{journey['seconds']:.0f}",
        )
        for journey in journeys
    ]
    print_table(("journey", "width (pixels)", "clicks", "seconds"), rows)
    write_figures(json_file, {"journeys": journeys})


def _walked(
    name: str, width: int, journey: Any, *, dark: bool, pictures: Path | None, **files: Any
) -> dict[str, Any]:
    """Walk a journey in a new dashboard, and return its steps, clicks and seconds."""
    from benchmarks.day import Visitor, browser_page, dashboard

    with (
        tempfile.TemporaryDirectory(prefix="bandgap-day-") as home,
        dashboard(Path(home)) as address,
        browser_page(width, dark=dark) as page,
    ):
        visitor = Visitor(page, pictures, f"{name}-{width}{'-dark' if dark else ''}")
        journey(visitor, address, **files)
        return {
            "name": name,
            "width": width,
            "clicks": visitor.clicks,
            "seconds": visitor.seconds,
            "steps": [asdict(step) for step in visitor.steps],
        }
