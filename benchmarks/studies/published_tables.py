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


def last_digit(text: str) -> float:
    """Return one unit of the last digit of a printed number.

    >>> last_digit("0.76"), last_digit("1.6e-3"), last_digit("12")
    (0.01, 0.0001, 1.0)
    """
    mantissa, _, exponent = text.strip().lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"1e{int(exponent or 0) - decimals}")


def cell(table: str, column: str, error: str = "", **keys: object) -> dict[str, Any]:
    """Return the fields of `Row` for the number in the row of a table with these values.

    `error` is the column of its standard error. Fields lack where the cell is empty. Raises
    ValueError unless exactly one row has the values.
    """
    (row,) = [
        row
        for row in read_table(table)
        if all(row[name] == str(value) for name, value in keys.items())
    ]
    if not row[column]:
        return {"table": table}
    return {
        "table": table,
        "printed": float(row[column]),
        "printed_unit": last_digit(row[column]),
        "printed_error": float(row[error]) if error and row[error] else 0.0,
    }


def numbers_in(setting: str) -> dict[str, str]:
    """Return the numbers that a setting names.

    >>> numbers_in("k = 0, n = 30")
    {'k': '0', 'n': '30'}
    """
    pairs = (part.split(" = ") for part in setting.split(", "))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
