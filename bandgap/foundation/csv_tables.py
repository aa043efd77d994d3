"""Tables as CSV text without cells that a spreadsheet would run as formulas, and back.

A text cell that starts with = + - @, tab or line break runs as a formula in spreadsheets (OWASP,
"CSV injection"). A leading apostrophe prevents this. A spreadsheet that separates cells by
semicolons or tabs starts a cell within a text, so that one follows each of them too. Numbers are
not changed. An apostrophe or quotation mark before such a character does not protect, and gets
one more apostrophe, so that `rearm` returns the original text.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_DANGEROUS = re.compile(r"""(?:^(?=['"]*[\t\r\n])|(?:^|(?<=[;\t\r\n]))(?=['"]*[=+\-@]))""")
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
_DEFUSED = re.compile(f"{_DANGEROUS.pattern}'")


def defuse(cell: str) -> str:
    """Return the text with an apostrophe where a spreadsheet would run what follows."""
    return _DANGEROUS.sub("'", cell)


def rearm(cell: str) -> str:
    """Return the text that was given to `defuse`."""
    return _DEFUSED.sub("", cell)


def csv_text(frame: "pd.DataFrame") -> str:
    """Return a table as CSV: text defused, numbers with at most six decimals, lines ended by LF.

    A missing value of any kind (None, NaN, pandas' NA and NaT) is an empty cell.
    """
    return csv_of_columns({str(name): frame[name] for name in frame.columns})


def csv_of_columns(columns_by_name: Mapping[str, Iterable[object]]) -> str:
    """Return the CSV of a table with these columns, as `csv_text`; imports no pandas."""
    cells = [chain([_cell(name)], map(_cell, values)) for name, values in columns_by_name.items()]
    return "".join(",".join(row) + "\n" for row in zip(*cells, strict=True))


def _cell(value: object) -> str:
    if isinstance(value, str):
        # Quoted here, because Python's csv module leaves a single CR unquoted before 3.13.
        safe = defuse(value).replace('"', '""')
        return f'"{safe}"' if _QUOTED.search(value) else safe
    if value is None or _is_missing(value):
        return ""
    if isinstance(value, float):
        return repr(round(float(value), 6) + 0.0)  # + 0.0 avoids "-0.0"
    return str(value)


def _is_missing(value: object) -> bool:
    """Return whether a value is missing: unequal to itself, as NaN and NaT, or pandas' NA."""
    try:
        return bool(value != value)
    except TypeError:  # "boolean value of NA is ambiguous"; works without importing pandas
        return True
