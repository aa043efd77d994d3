"""The option --parts: store finished parts of a benchmark, so that a later call resumes."""

from pathlib import Path
from typing import Annotated

import typer

PartsFile = Annotated[
    Path | None,
    typer.Option(
        "--parts",
        metavar="FILE",
        help="Store finished parts in this file, and measure only those that it lacks.",
    ),
]


def report_resumed_parts(parts: int) -> None:
    """Print how many parts were measured by an earlier run, if there are any."""
    if parts:
        typer.echo(
            f"{parts} parts are from an earlier run with --parts; "
            "their times were measured on its machine."
        )
