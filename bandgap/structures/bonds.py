"""Find bonds by distance, the molecules that they form, and the sizes of the molecules."""

import numpy as np
from ase import Atoms
from ase.data import covalent_radii
from numpy.typing import NDArray

from bandgap.structures.neighbours import bonded_groups, close_vectors_of

BOND = 1.25  # largest bond length divided by the sum of the covalent radii

Indices = NDArray[np.intp]


def bonds(atoms: Atoms) -> tuple[Indices, Indices]:
    """Return the atoms i < j (bond,) of every bond, without bonds of an atom to its own image."""
    radii = BOND * covalent_radii[np.asarray(atoms.numbers)]
    i, j, vectors = close_vectors_of(atoms, 2.0 * float(radii.max()))
    bonded = (np.linalg.norm(vectors, axis=1) < radii[i] + radii[j]) & (i != j)
    return i[bonded], j[bonded]


def molecules(atoms: Atoms) -> tuple[int, Indices]:
    """Return the number of bonded groups of atoms, and the group of every atom (n,)."""
    return bonded_groups(len(atoms), *bonds(atoms))


def molecule_sizes(atoms: Atoms, *, largest: int) -> NDArray[np.int64]:
    """Return for every atom (n,) the number of non-hydrogen atoms in its molecule, 1 to `largest`.

    Atoms of an infinite network of bonds have the size `largest`. A bonded group is a network if it
    has more atoms in a cell that is doubled along every periodic axis.
    """
    count, group = molecules(atoms)
    n_heavy = np.bincount(group, weights=np.asarray(atoms.numbers) > 1, minlength=count)
    if atoms.pbc.any():
        repeats = [2 if periodic else 1 for periodic in atoms.pbc]
        doubled = atoms.repeat(repeats)  # type: ignore[no-untyped-call]
        _, doubled_group = molecules(doubled)
        grows = np.bincount(doubled_group)[doubled_group[: len(atoms)]] > np.bincount(group)[group]
        is_network = np.bincount(group, weights=grows, minlength=count) > 0
        n_heavy = np.where(is_network, largest, n_heavy)
    return np.clip(n_heavy, 1, largest).astype(np.int64)[group]
