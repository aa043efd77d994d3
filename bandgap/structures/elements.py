"""Convert the element symbols of structure files to atomic numbers.

This module does not import ASE, because the dashboard's pages import it.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

import gemmi

from bandgap.structures.draft import Unreadable

# By atomic number, hydrogen first.
ELEMENTS = tuple(str(gemmi.Element(number).name) for number in range(1, 119))
_TABLE = {symbol: number for number, symbol in enumerate(ELEMENTS, start=1)}
_ISOTOPES = {
    "D": "deuterium (D) is read as hydrogen",
    "T": "tritium (T) is read as hydrogen",
}
_NUMBERED = re.compile(r"([A-Za-z]{1,2})\d+")
# With a mass number, or a charge, which may be an average: 13C, Fe3+, Fe+3, Fe2.67+.
_CHARGED = re.compile(r"(?:\d{1,3})?([A-Za-z]{1,2})(?:\d*(?:\.\d+)?[+-]?|[+-]\d*(?:\.\d+)?)")
_PSEUDO_HYDROGEN = re.compile(r"H\d?\.\d+")  # of POTCARs of VASP
_DUMMY = {"x", "xx", "du", "q", "bq", "gh", "lp", "m"}


def to_numbers(symbols: list[str], *, name: Callable[[int], str]) -> tuple[list[int], list[str]]:
    """Return atomic numbers, and warnings on isotopes, which are read as their elements.

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
        return numbers, []
    notes: dict[str, None] = {}
    for atom, symbol in enumerate(symbols):
        if not numbers[atom]:
            element = element_of(symbol)
            if not element:
                raise Unreadable(_refusal(symbol, name(atom)))
            numbers[atom] = _TABLE[chemical_element(symbol)]
            if is_isotope(symbol):
                notes[_ISOTOPES.get(element) or f"{symbol} is read as {element}"] = None
    return numbers, list(notes)


def symbol_of(atom: object) -> str:
    """Return the symbol of an atomic number; texts stay. Raises Unreadable if it is no element."""
    if isinstance(atom, int):
        if not 1 <= atom <= len(ELEMENTS):
            raise Unreadable(f"an atom of number {atom}, which is no element")
        return ELEMENTS[atom - 1]
    if atom is None:
        raise Unreadable("an atom without an element")
    return str(atom)


def is_isotope(symbol: str) -> bool:
    """Return whether a symbol is D, T, or one with a mass number, such as 13C."""
    has_mass = symbol[:1].isdigit() and not symbol.isdigit()
    return has_mass or element_of(symbol) in _ISOTOPES


def chemical_element(text: str) -> str:
    """Return the element of a symbol, hydrogen for D and T, "" if it is none."""
    element = element_of(text)
    return "H" if element in _ISOTOPES else element


def pseudo_hydrogen_note(symbols: Iterable[str]) -> str:
    """Return a warning if a symbol is a hydrogen of fractional charge, such as H.5, else ""."""
    name = next(filter(_PSEUDO_HYDROGEN.fullmatch, symbols), "")
    return (
        f"{name} is a pseudo-hydrogen, which saturates a cut surface; it is read as hydrogen"
        if name
        else ""
    )


def element_of_name(name: str) -> str:
    """Return the element of a species such as Ti, Ti_pv, O_top or Ti/1a2b3c, "" if it is none."""
    return element_of(re.split(r"[_/.]", name)[0])


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
