"""The option --parts: a measurement of many parts keeps those that are done."""

from pathlib import Path
from typing import Annotated

import typer

PartsFile = Annotated[
    Path | None,
    typer.Option(
        "--parts",
        metavar="FILE",
        help="Keep parts here as they are done; measure those alone it lacks.",
    ),
]


def report_resumed_parts(parts: int) -> None:
    """Say how many parts of a measurement an earlier run has made, where there are any."""
    if parts:
        typer.echo(
            f"{parts} parts are of an earlier run with --parts, with the seconds of its machine."
        )
