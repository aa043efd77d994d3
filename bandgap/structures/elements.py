"""Convert the element symbols of structure files to atomic numbers.

This module does not import ASE, because the dashboard's pages import it.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import gemmi

from bandgap.structures.draft import Unreadable

DEUTERIUM = "deuterium (D) is read as hydrogen"
# By atomic number, hydrogen first.
ELEMENTS = tuple(str(gemmi.Element(number).name) for number in range(1, 119))
_TABLE = {symbol: number for number, symbol in enumerate(ELEMENTS, start=1)}
_ISOTOPES = {"D": 1, "T": 1}
_NUMBERED = re.compile(r"([A-Za-z]{1,2})\d+")
# With a charge, which may be an average: Fe3+, Fe+3, Fe2.67+.
_CHARGED = re.compile(r"([A-Za-z]{1,2})(?:\d*(?:\.\d+)?[+-]?|[+-]\d*(?:\.\d+)?)")
_DUMMY = {"x", "xx", "du", "q", "bq", "gh", "lp", "m"}


def to_numbers(symbols: list[str], *, name: Callable[[int], str]) -> tuple[list[int], bool]:
    """Return atomic numbers, and whether one of the symbols is deuterium or tritium.

    Parameters
    ----------
    symbols
        Symbols in upper or lower case, also with a number (C12), or atomic numbers as text.
    name
        Returns the name of an atom, by its index, for the error message.

    Raises
    ------
    Unreadable
        If a symbol is not an element.
    """
    numbers = [_TABLE.get(symbol, 0) for symbol in symbols]
    if all(numbers):
        return numbers, False
    has_isotopes = False
    for atom, symbol in enumerate(symbols):
        if not numbers[atom]:
            element = element_of(symbol)
            if not element:
                raise Unreadable(_refusal(symbol, name(atom)))
            has_isotopes = has_isotopes or element in _ISOTOPES
            numbers[atom] = _ISOTOPES.get(element) or _TABLE[element]
    return numbers, has_isotopes


@lru_cache(maxsize=4096)
def element_of(text: str) -> str:
    """Return the element (or D, T) of a symbol such as C, CL, C12, Fe3+ or 6, "" if it is none."""
    if text.isascii() and text.isdigit():
        return next((symbol for symbol, number in _TABLE.items() if number == int(text[:4])), "")
    match = _NUMBERED.fullmatch(text) or _CHARGED.fullmatch(text)
    symbol = match.group(1).capitalize() if match else text.capitalize()
    return symbol if symbol in _TABLE or symbol in _ISOTOPES else ""


def _refusal(symbol: str, name: str) -> str:
    if symbol.rstrip("0123456789").lower() in _DUMMY or symbol == "0":
        return (
            f"atom {name} is a dummy atom ({symbol!r}). Remove dummy and ghost atoms and export"
            " again."
        )
    return (
        f"atom {name} has the unknown element {symbol[:20]!r}. Accepted: symbols of the periodic"
        " table, and D."
    )
