"""Recognise lengths in a wrong unit, such as bohr, by distances that are no bonds.

In crystals and molecules, the nearest neighbour of an atom is 0.7 to 1.4 sums of the covalent
radii away. Lengths in bohr that are read as Angstrom are 1.89 times too long. Atoms of noble gases
are left out, because they have no bonds, and so are cells with one other atom, and dense hydrogen,
whose atoms are 1.0 A apart. In molecular crystals and porous frameworks every atom has a bond, so
that these are not meant.

Reference for the radii: Cordero et al., Dalton Trans. 2008, 2832.
"""

import itertools

import numpy as np
from ase.data import covalent_radii
from ase.units import Bohr
from numpy.typing import NDArray

from bandgap.structures.neighbours import (
    LONGEST_BOND,
    SHORTEST_BOND,
    cell_volume,
    close_pairs,
    complete_cell,
    nearest_ratio,
)

USUAL_BONDS = (0.72, 1.36)  # divided by the sums of the covalent radii
_DENSE_HYDROGEN = 3.0  # per atom, cubic Angstrom; solid H2 without pressure has 19
_NOBLE_GASES = (2, 10, 18, 36, 54, 86, 118)

Floats = NDArray[np.float64]


def unit_warning(
    numbers: NDArray[np.int_], *, positions: Floats, cell: Floats, pbc: tuple[bool, bool, bool]
) -> str:
    """Return a warning if all atoms are too far apart or too close for bonds, or "".

    Parameters
    ----------
    numbers
        Atomic numbers (n,).
    positions
        Positions (n, 3) in Angstrom.
    cell
        Cell vectors as rows (3, 3) in Angstrom, which have passed `check_volume`.
    pbc
        Whether each cell vector is periodic.
    """
    bonding = np.flatnonzero(~np.isin(numbers, _NOBLE_GASES))
    if len(bonding) < 2 or _is_compressed_hydrogen(numbers, cell, pbc):
        return ""  # nothing tells a sparse cell from a wrong unit
    full = complete_cell(cell, pbc)
    shifts = np.array(list(itertools.product(*((-1, 0, 1) if p else (0,) for p in pbc))))
    ratios = []
    for atom in bonding.tolist():
        ratios.append(_ratio_with_images(atom, numbers, positions, full, pbc, shifts=shifts))
        if min(ratios) <= LONGEST_BOND and max(ratios) >= SHORTEST_BOND:
            return ""
    if min(ratios) < SHORTEST_BOND:
        return _short_text(min(ratios))
    return "" if _has_bond(numbers, positions, cell, pbc) else _long_text(min(ratios))


def _is_compressed_hydrogen(
    numbers: NDArray[np.int_], cell: Floats, pbc: tuple[bool, bool, bool]
) -> bool:
    """Return whether a crystal is hydrogen under a pressure that breaks its molecules."""
    is_hydrogen = bool((numbers == 1).all()) and all(pbc)
    return is_hydrogen and cell_volume(cell) < _DENSE_HYDROGEN * len(numbers)


def _long_text(ratio: float) -> str:
    fact = f"all atoms are at least {ratio:.2f} times the sum of their covalent radii apart"
    if USUAL_BONDS[0] <= ratio * Bohr <= USUAL_BONDS[1]:
        return f"{fact}; are the lengths in bohr? Then multiply them by {Bohr:.6f}"
    if USUAL_BONDS[0] <= ratio / 100 <= USUAL_BONDS[1]:
        return f"{fact}; are the lengths in pm? Then divide them by 100"
    return f"{fact}, so that none has a bond; is the unit of the lengths right?"


def _short_text(ratio: float) -> str:
    fact = (
        f"atoms are {ratio:.2f} times the sum of their covalent radii apart, closer than bonds"
        " without high pressure"
    )
    if USUAL_BONDS[0] <= ratio / Bohr <= USUAL_BONDS[1]:
        return f"{fact}; were lengths in Angstrom read as bohr? Then divide them by {Bohr:.6f}"
    return f"{fact}; is the unit of the lengths right?"


def _ratio_with_images(
    atom: int,
    numbers: NDArray[np.int_],
    positions: Floats,
    cell: Floats,
    pbc: tuple[bool, bool, bool],
    *,
    shifts: NDArray[np.int_],
) -> float:
    """Return the smallest distance of an atom to others, divided by the sum of covalent radii.

    Only the images count that are nearest along the axes of the cell, and those next to them by
    `shifts` (shift, 3), so that it can be too large in a cell of unusual angles. It is infinite
    without another atom.
    """
    differences = positions - positions[atom]
    if any(pbc):
        fractional = differences @ np.linalg.inv(cell)
        differences = (fractional - np.where(pbc, np.rint(fractional), 0.0)) @ cell
        differences = (differences + (shifts @ cell)[:, None]).reshape(-1, 3)
    return nearest_ratio(atom, numbers, differences)


def _has_bond(
    numbers: NDArray[np.int_], positions: Floats, cell: Floats, pbc: tuple[bool, bool, bool]
) -> bool:
    """Return whether any two atoms, with all images, are closer than `LONGEST_BOND`."""
    radii = LONGEST_BOND * covalent_radii[numbers]
    i, j, distances = close_pairs(
        positions, cell=cell, pbc=pbc, cutoff_angstrom=2.0 * float(radii.max())
    )
    is_noble = np.isin(numbers, _NOBLE_GASES)
    return bool(((distances < radii[i] + radii[j]) & ~(is_noble[i] & is_noble[j])).any())
