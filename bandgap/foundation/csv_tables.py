"""Tables as CSV text that a spreadsheet cannot mistake for formulas, and back.

A text cell that begins with = + - @, tab or line break runs as a formula in spreadsheets (OWASP, "CSV injection"); a
leading apostrophe defuses it. Numbers are never touched. A cell that already looks defused gets one more apostrophe, so
that `rearm` gives back exactly what was there.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_DANGEROUS = re.compile(r"'*[=+\-@\t\r\n]")
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
_DEFUSED = re.compile(r"'+[=+\-@\t\r\n]")


def defuse(cell: str) -> str:
    """Return the text with a leading apostrophe where a spreadsheet would run it."""
    return "'" + cell if _DANGEROUS.match(cell) else cell


def rearm(cell: str) -> str:
    """Return the text that `defuse` was given."""
    return cell[1:] if _DEFUSED.match(cell) else cell


def csv_text(frame: "pd.DataFrame") -> str:
    """Return a table as CSV: text defused, numbers with at most six decimals, lines ending in LF.

    A missing value of any kind (None, NaN, pandas' NA and NaT) is an empty cell.
    """
    return csv_of_columns({str(name): frame[name] for name in frame.columns})


def csv_of_columns(columns_by_name: Mapping[str, Iterable[object]]) -> str:
    """Return what `csv_text` does of a table with these columns; loads no pandas."""
    cells = [chain([_cell(name)], map(_cell, values)) for name, values in columns_by_name.items()]
    return "".join(",".join(row) + "\n" for row in zip(*cells, strict=True))


def _cell(value: object) -> str:
    if isinstance(value, str):
        safe = defuse(value).replace(
            '"', '""'
        )  # quoted by hand: Python's writer leaves a lone CR bare before 3.13
        return f'"{safe}"' if _QUOTED.search(value) else safe
    if value is None or _is_missing(value):
        return ""
    if isinstance(value, float):
        return repr(round(float(value), 6) + 0.0)  # + 0.0: never "-0.0"
    return str(value)


def _is_missing(value: object) -> bool:
    """Return whether a value differs from itself, as NaN and NaT do, or does not say whether it does, as pandas' NA."""
    try:
        return bool(value != value)
    except TypeError:  # "boolean value of NA is ambiguous": pandas need not be loaded to know it
        return True
