"""Signed errors of a run by element, by range of the gap and by size of the structure.

The signed error of a group is the mean of predicted less known gap. Its range of chance is where
the mean would be without a shift: two standard errors about zero, from the spread in the group.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut

GROUPS = 4  # of gap and size
FEWEST_IN_GROUP = 3  # structures for a range of chance
STANDARD_ERRORS = 1.96

_ELEMENT_AND_COUNT = re.compile(r"([A-Z][a-z]?)(\d*)")


def error_by_element(heldout: HeldOut) -> pd.DataFrame:
    """Return errors of the structures with an element, the most frequent element first."""
    elements_by_row = [set(atoms_in(formula)) for formula in heldout.predictions.formulas]
    counts = Counter(element for elements in elements_by_row for element in elements)
    groups = {
        element: [row for row, elements in enumerate(elements_by_row) if element in elements]
        for element, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    }
    return _table(heldout, groups, name="element")


def error_by_gap(heldout: HeldOut) -> pd.DataFrame:
    """Return errors by range of the predicted gap, in groups of about equal size.

    The ranges are of the predicted gap, because a group of small known gaps contains, by selection,
    structures whose gap is predicted too large.
    """
    values = np.asarray(heldout.predictions.mean_eV, dtype=np.float64)
    return _table(heldout, _groups_of(values, unit=" eV", digits=2), name="predicted gap")


def error_by_size(heldout: HeldOut) -> pd.DataFrame:
    """Return errors by the number of atoms, in groups of about equal size."""
    counts = [sum(atoms_in(formula).values()) for formula in heldout.predictions.formulas]
    values = np.array(counts, dtype=np.float64)
    return _table(heldout, _groups_of(values, unit=" atoms", digits=0), name="size")


def atoms_in(formula: str) -> dict[str, int]:
    """Return the number of atoms of every element in a Hill formula.

    >>> atoms_in("C2H6O")
    {'C': 2, 'H': 6, 'O': 1}
    """
    return {element: int(count or 1) for element, count in _ELEMENT_AND_COUNT.findall(formula)}


def _groups_of(values: NDArray[np.float64], *, unit: str, digits: int) -> dict[str, Sequence[int]]:
    """Return the rows of up to `GROUPS` ranges of the values; equal values are in one range."""
    shares = np.linspace(0, 1, GROUPS + 1)[1:-1]
    limits = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    number = np.searchsorted(limits, values, side="left")
    groups: dict[str, Sequence[int]] = {}
    for k in np.unique(number):
        rows = np.flatnonzero(number == k)
        low, high = values[rows].min(), values[rows].max()
        label = f"{low:.{digits}f}" + (f" to {high:.{digits}f}" if high > low else "") + unit
        groups[label] = rows.tolist()
    return groups


def _table(heldout: HeldOut, groups: Mapping[str, Sequence[int]], *, name: str) -> pd.DataFrame:
    errors = heldout.errors_eV
    table_rows = []
    for label, row_numbers in groups.items():
        group = errors[np.asarray(row_numbers, dtype=np.int64)]
        chance = np.nan
        if group.size >= FEWEST_IN_GROUP:
            chance = STANDARD_ERRORS * float(group.std(ddof=1)) / np.sqrt(group.size)
        table_rows.append(
            (label, group.size, group.mean(), chance, float(np.sqrt(np.mean(group**2))))
        )
    names = [name, "structures", "signed_error_eV", "chance_eV", "rmse_eV"]
    return pd.DataFrame(table_rows, columns=names)
