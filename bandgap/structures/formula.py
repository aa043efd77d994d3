"""Compare the chemical formula that a file states with the atoms that it lists."""

import math
import re
from collections import Counter
from collections.abc import Iterable

from bandgap.structures.draft import Draft
from bandgap.structures.elements import element_of

_PART = re.compile(r"([A-Z][a-z]?)(\d+\.?\d*|\.\d+)?")


def parse_formula(text: str) -> dict[str, float]:
    """Return the count of every element in a formula such as "C6 H6 O0.5".

    D and T count as H. A formula that is written in another way gives an empty result.
    """
    counts: dict[str, float] = {}
    for token in text.split():
        parts = _PART.findall(token)
        if "".join(a + b for a, b in parts) != token:
            return {}
        for symbol, count in parts:
            if not element_of(symbol):
                return {}
            element = _element_without_isotope(symbol)
            counts[element] = counts.get(element, 0.0) + (float(count) if count else 1.0)
    return counts if all(count > 0 for count in counts.values()) else {}


def warn_on_mismatch(draft: Draft, formula: dict[str, float]) -> None:
    """Add a warning if the atoms are not a multiple of the formula.

    Missing hydrogen atoms give no warning here; `bandgap.structures.checks` checks for them.
    """
    atoms = Counter(_element_without_isotope(symbol) for symbol in draft.symbols)
    draft.expects_hydrogen = {"H", "C"} <= formula.keys()
    if not atoms or not formula or (draft.expects_hydrogen and not atoms["H"]):
        return
    ratios = [atoms[element] / formula[element] for element in formula]
    if atoms.keys() != formula.keys() or max(ratios) - min(ratios) > 1e-3 * max(ratios):
        listed_formula = _hill_formula(dict(atoms))
        stated_formula = _hill_formula(formula)
        draft.warn(
            f"the atoms add up to {listed_formula}, the file's own formula is {stated_formula}; "
            "are atoms missing?"
        )


def reduced_formula(symbols: Iterable[str]) -> str:
    """Return the formula of atoms divided by the greatest common divisor of its counts.

    >>> reduced_formula(["C", "H", "O", "H", "H", "H", "H", "H", "C", "O", "H", "H"])
    'CH4O'
    """
    counts = Counter(symbols)
    divisor = math.gcd(*counts.values())
    return _hill_formula({element: count / divisor for element, count in counts.items()})


def _element_without_isotope(symbol: str) -> str:
    element = element_of(symbol)
    return "H" if element in ("D", "T") else element or symbol


def _hill_formula(counts: dict[str, float]) -> str:
    ordered = sorted(
        counts, key=lambda element: (element != "C", element != "H" or "C" not in counts, element)
    )
    return "".join(
        f"{element}{counts[element]:g}" if counts[element] != 1 else element for element in ordered
    )
