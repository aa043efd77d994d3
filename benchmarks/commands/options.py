"""Options that several benchmarks share."""

from pathlib import Path
from typing import Annotated

import typer

DataFolder = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Folder with the data sets.", envvar="BANDGAP_TEST_DATA"),
]
ResultsFolder = Annotated[
    Path,
    typer.Option(metavar="DIR", help="Folder of source and results. A later call resumes from it."),
]
