"""Frontier levels of the molecules of a crystal, each computed alone by tight binding.

A hybrid crystal, such as a perovskite with organic ions, has about a hundred atoms and heavy
elements, for which tight binding of the cell takes seconds and is not accurate. Its molecules take
a tenth of a second, and their levels decide whether they or the framework have the frontier levels.

The charge of a molecule is counted from its atoms (`structures.fragments`).
"""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from bandgap.descriptors.tight_binding import Method, NoLevelsError, electrons
from bandgap.structures.fragments import Fragment, formal_charge, fragments

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

# Copies of a molecule whose sorted distances differ by less are computed once.
_SAME_ANGSTROM: Final = 0.1


def molecule_levels_eV(atoms: "Atoms", *, method: Method) -> Floats:
    """Return the smallest gap, highest HOMO and lowest LUMO (3,) of the molecules in eV.

    Raises NoLevelsError if there is no molecule or one has no levels, and ConfigError if tblite is
    not installed.
    """
    molecules = _distinct(fragments(atoms))
    if not molecules:
        raise NoLevelsError("it contains no molecule, a finite group of bonded non-metal atoms")
    states = [
        electrons(
            molecule.numbers, molecule.positions, method=method, charge=formal_charge(molecule)
        )
        for molecule in molecules
    ]
    return np.array(
        [
            min(state.gap_eV for state in states),
            max(state.homo_eV for state in states),
            min(state.lumo_eV for state in states),
        ]
    )


def _distinct(molecules: list[Fragment]) -> list[Fragment]:
    """Return one of each group of molecules with equal elements and distances."""
    distinct: list[tuple[Fragment, NDArray[np.int64], Floats]] = []
    for molecule in molecules:
        numbers = np.sort(molecule.numbers)
        distances = np.sort(pdist(molecule.positions))
        if not any(
            np.array_equal(numbers, other_numbers)
            and np.abs(distances - other_distances).max(initial=0.0) < _SAME_ANGSTROM
            for _, other_numbers, other_distances in distinct
        ):
            distinct.append((molecule, numbers, distances))
    return [molecule for molecule, _, _ in distinct]
