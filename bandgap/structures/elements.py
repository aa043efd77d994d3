"""Element symbols as files write them, to atomic numbers. Loads no ASE, as pages read it."""

import re
from collections.abc import Callable
from functools import lru_cache

import gemmi

from bandgap.structures.draft import Unreadable

DEUTERIUM = "deuterium (D) is read as hydrogen"
ELEMENTS = tuple(str(gemmi.Element(number).name) for number in range(1, 119))  # by atomic number, hydrogen first
_TABLE = {symbol: number for number, symbol in enumerate(ELEMENTS, start=1)}
_ISOTOPES = {"D": 1, "T": 1}
_NUMBERED = re.compile(r"([A-Za-z]{1,2})\d+")
_CHARGED = re.compile(r"([A-Za-z]{1,2})\d*[+-]?\d*")
_DUMMY = {"x", "xx", "du", "q", "bq", "gh", "lp", "m"}


def to_numbers(symbols: list[str], *, name: Callable[[int], str]) -> tuple[list[int], bool]:
    """Return atomic numbers, and whether deuterium or tritium was among them.

    A symbol may be in any case, carry a number (C12) or be an atomic number. `name` says what the user calls an atom.
    Raises Unreadable on the first that is no element.
    """
    found = [_TABLE.get(symbol, 0) for symbol in symbols]
    if all(found):
        return found, False
    isotopes = False
    for atom, symbol in enumerate(symbols):
        if not found[atom]:
            element = element_of(symbol)
            if not element:
                raise Unreadable(_refusal(symbol, name(atom)))
            isotopes = isotopes or element in _ISOTOPES
            found[atom] = _ISOTOPES.get(element) or _TABLE[element]
    return found, isotopes


@lru_cache(maxsize=4096)
def element_of(text: str) -> str:
    """Return the element (or D, T) that a symbol such as C, CL, C12, Fe3+ or 6 names, "" when it names none."""
    if text.isascii() and text.isdigit():
        return next((symbol for symbol, number in _TABLE.items() if number == int(text[:4])), "")
    match = _NUMBERED.fullmatch(text) or _CHARGED.fullmatch(text)
    symbol = match.group(1).capitalize() if match else text.capitalize()
    return symbol if symbol in _TABLE or symbol in _ISOTOPES else ""


def _refusal(symbol: str, name: str) -> str:
    if symbol.rstrip("0123456789").lower() in _DUMMY or symbol == "0":
        return f"atom {name} is a dummy atom ({symbol!r}). Remove dummy and ghost atoms and export again."
    return f"atom {name} has the unknown element {symbol[:20]!r}. Accepted: symbols of the periodic table, and D."
