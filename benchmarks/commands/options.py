"""Options that several benchmarks share."""

from collections.abc import Sequence
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
Potentials = Annotated[
    list[str],
    typer.Option(
        "--potential",
        help="A pretrained potential for methods without a source; none for none of them. May "
        "be given twice. Default: those that are installed.",
    ),
]
ErrorTable = Annotated[
    Path | None,
    typer.Option(
        "--table",
        metavar="FILE",
        help="Write the errors into this table too, from which methods are proposed: "
        "bandgap/sources/measured_errors.csv. Methods with three splits or more.",
    ),
]


def without_paths(words: Sequence[str]) -> list[str]:
    """Return a command's words with placeholders for folders, and without the table.

    Examples
    --------
    >>> without_paths(["crystals", "--data", "/x", "--out=y", "--n", "9", "--table", "z"])
    ['crystals', '--data', 'DATA', '--out', 'OUT', '--n', '9']
    """
    result: list[str] = []
    following = iter(words)
    for word in following:
        option, is_assigned, _ = word.partition("=")
        if option not in ("--data", "--out", "--table"):
            result.append(word)
            continue
        if not is_assigned:
            next(following)
        if option != "--table":
            result += [option, option.removeprefix("--").upper()]
    return result
