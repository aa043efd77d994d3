"""Compare the chemical formula that a file states with the atoms that it lists."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import gemmi
import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Draft
from bandgap.structures.elements import chemical_element

GRAMS_PER_CM3 = 1.66053906660  # of one atomic mass unit in 1 Angstrom^3
# Elements of the molecules and peroxides that pymatgen counts as wholes.
_DOUBLED = {
    *map(frozenset, ({"H"}, {"N"}, {"O"}, {"F"}, {"Cl"})),
    *(frozenset({element, "O"}) for element in ("H", "Li", "Na", "K", "Rb", "Cs")),
}
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
            element = chemical_element(symbol)
            if not element:
                return {}
            counts[element] = counts.get(element, 0.0) + (float(count) if count else 1.0)
    return counts if all(count > 0 for count in counts.values()) else {}


def formula_units(symbols: Iterable[str], formula: dict[str, float]) -> float | None:
    """Return how many times the formula the atoms are, None if they are no multiple of it."""
    atoms = _element_counts(symbols)
    if atoms.keys() != formula.keys():
        return None
    ratios = [atoms[element] / formula[element] for element in formula]
    return ratios[0] if max(ratios) - min(ratios) <= 1e-3 * max(ratios) else None


def is_number_of_units(number: float, units: float, formula: dict[str, float]) -> bool:
    """Return whether a file's Z is the number of formula units in the cell.

    `units` counts the file's formula. pymatgen and ASE write the atoms of the whole cell as the
    formula; their Z counts the formula divided by its greatest common divisor. pymatgen counts
    molecules and peroxides as wholes, such as N2 and Na2O2, which are twice the simplest formula.
    """
    counts = [round(count) for count in formula.values()]
    is_whole = all(abs(count - n) < 1e-3 for count, n in zip(counts, formula.values(), strict=True))
    of_cell = []
    if is_whole and abs(units - 1) < 0.01:
        divisor = math.gcd(*counts)
        of_cell.append(float(divisor))
        if frozenset(formula) in _DOUBLED and max(counts) == divisor:
            of_cell.append(divisor / 2)
    return any(abs(n - number) <= 0.01 * number for n in (units, *of_cell))


def check_formula(draft: Draft, formula: dict[str, float]) -> None:
    """Let a draft be refused if its atoms are not a multiple of the formula that the file states.

    A difference in hydrogen alone is a warning, because X-ray structures often lack some. Hydrogen
    that is missing from an organic structure altogether gives no warning here;
    `bandgap.structures.checks` checks for it.
    """
    difference = formula_difference(draft, formula)
    if not difference:
        return
    atoms = [symbol for symbol in draft.symbols if chemical_element(symbol) != "H"]
    without_hydrogen = {element: n for element, n in formula.items() if element != "H"}
    if without_hydrogen and formula_units(atoms, without_hydrogen) is not None:
        draft.warn(f"{difference}; are hydrogen atoms missing?")
        return
    draft.content_problem = (
        f"{difference}. Atoms are missing or doubled, or the space group is another one; export all"
        " atoms of the cell in P 1, or correct the formula."
    )


def formula_difference(draft: Draft, formula: dict[str, float]) -> str:
    """Return the sentence that atoms and formula differ, "" if they agree or cannot be compared."""
    has_hydrogen = any(chemical_element(symbol) == "H" for symbol in set(draft.symbols))
    draft.expects_hydrogen = {"H", "C"} <= formula.keys()
    if not draft.symbols or not formula or (draft.expects_hydrogen and not has_hydrogen):
        return ""
    if formula_units(draft.symbols, formula) is not None:
        return ""
    atoms = _element_counts(draft.symbols)
    return (
        f"the atoms add up to {_hill_formula(dict(atoms))}, the file's own formula is"
        f" {_hill_formula(formula)}"
    )


def mass_density(symbols: Iterable[str], cell: NDArray[np.float64]) -> float:
    """Return the mass density of atoms in a cell (3, 3) in Angstrom, in g/cm^3."""
    mass = sum(n * _atomic_mass(symbol) for symbol, n in Counter(symbols).items())
    volume = abs(float(np.linalg.det(cell)))
    return mass * GRAMS_PER_CM3 / volume


def reduced_formula(symbols: Iterable[str]) -> str:
    """Return the formula of atoms divided by the greatest common divisor of its counts.

    >>> reduced_formula(["C", "H", "O", "H", "H", "H", "H", "H", "C", "O", "H", "H"])
    'CH4O'
    """
    counts = Counter(symbols)
    divisor = math.gcd(*counts.values())
    return _hill_formula({element: count / divisor for element, count in counts.items()})


def _element_counts(symbols: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for symbol, n in Counter(symbols).items():
        counts[chemical_element(symbol) or symbol] += n
    return counts


@lru_cache(maxsize=256)
def _atomic_mass(symbol: str) -> float:
    return float(gemmi.Element(chemical_element(symbol) or symbol).weight)


def _hill_formula(counts: dict[str, float]) -> str:
    ordered = sorted(
        counts, key=lambda element: (element != "C", element != "H" or "C" not in counts, element)
    )
    return "".join(
        f"{element}{counts[element]:g}" if counts[element] != 1 else element for element in ordered
    )
