"""The printed tables in `published`, as numbers."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "published"


def table_names() -> list[str]:
    """Return the names of all printed tables, which are their files without ".csv"."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


@cache
def read_table(name: str) -> tuple[Mapping[str, str], ...]:
    """Return the rows of a printed table: texts by the name of their column."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def row_of(name: str, **keys: object) -> Mapping[str, str]:
    """Return the one row of a printed table whose columns have these values.

    Raises KeyError unless exactly one row has them.
    """
    matches = [
        row
        for row in read_table(name)
        if all(row[column] == str(value) for column, value in keys.items())
    ]
    if len(matches) != 1:
        raise KeyError(f"{name}: {len(matches)} rows with {keys}, not one.")
    return matches[0]


def last_digit(text: str) -> float:
    """Return one unit of the last digit of a printed number.

    >>> last_digit("0.76"), last_digit("1.6e-3"), last_digit("12")
    (0.01, 0.0001, 1.0)
    """
    mantissa, _, exponent = text.strip().lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def printed(row: Mapping[str, str], column: str, error: str = "") -> dict[str, Any]:
    """Return the fields of `Row` for a printed number, empty where the cell is empty.

    `error` is the column of its standard error.
    """
    if not row[column]:
        return {}
    return {
        "printed": float(row[column]),
        "printed_unit": last_digit(row[column]),
        "printed_error": float(row[error]) if error and row[error] else 0.0,
    }
