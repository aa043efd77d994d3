"""Gaps that a data set holds already: numbers of its files as gaps, and a new set of gaps beside the present one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.labels import EV_PER_HARTREE, LARGEST_GAP_EV, Unit
from bandgap.datasets.levels import distinct_levels, mixed_levels_warning
from bandgap.foundation.errors import InputError

_TO_EV: dict[Unit, float] = {"eV": 1.0, "Hartree": EV_PER_HARTREE}
_SHOWN = 5

Floats = NDArray[np.float64]


def gaps_from_numbers(ids: Sequence[str], values: Floats, *, unit: Unit, name: str) -> Floats:
    """Return values (n,) of the files' number `name` in `unit` as gaps in eV; NaN where a file gives none.

    Raises InputError when a value is no gap: negative, or larger than 100 eV.
    """
    gaps = np.asarray(values, dtype=np.float64) * _TO_EV[unit]
    wrong = np.flatnonzero(~np.isnan(gaps) & ~((gaps >= 0.0) & (gaps <= LARGEST_GAP_EV)))
    if wrong.size:
        shown = ", ".join(f"{ids[i]} ({values[i]:g})" for i in wrong[:_SHOWN])
        more = f" and {wrong.size - _SHOWN:,} more" if wrong.size > _SHOWN else ""
        raise InputError(
            f"{name} in {unit} is not a band gap in {shown}{more}. Accepted: 0 to {LARGEST_GAP_EV:g} eV. "
            "Is it another quantity, or the wrong unit?"
        )
    return gaps


def merged_gaps(present_eV: Floats, new_eV: Floats, *, levels: tuple[str, str]) -> tuple[Floats, str, tuple[str, ...]]:
    """Return the new gaps (n,) with the present ones where there is no new one, their level of theory, and warnings.

    `levels` are those of the present and of the new gaps; a level counts only when one of its gaps is kept.
    """
    merged = np.where(np.isnan(new_eV), present_eV, new_eV)
    kept = bool((np.isnan(new_eV) & ~np.isnan(present_eV)).any())
    stated = [part for level in (levels if kept else levels[1:]) for part in level.split(";")]
    found = distinct_levels(stated)
    warnings = [mixed_levels_warning(found)]
    if kept and len(found) == 1 and not all(level.strip() for level in levels):
        warnings.append(
            f"Some gaps are of {found[0]}, the others state no level of theory. State it, to see mixed levels."
        )
    return merged, "; ".join(found), tuple(filter(None, warnings))
