"""Bonds by distance, the molecules that they make, and how large these are; a network of bonds is no molecule."""

import numpy as np
from ase import Atoms
from ase.data import covalent_radii
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bandgap.structures.neighbours import close_pairs

BOND = 1.25  # largest length of a bond in sums of covalent radii

Indices = NDArray[np.intp]


def bonds(atoms: Atoms) -> tuple[Indices, Indices]:
    """Return the atoms i < j (bond,) of every bond; one between an atom and its own image is left out."""
    radii = BOND * covalent_radii[np.asarray(atoms.numbers)]
    i, j, distances = close_pairs(
        np.asarray(atoms.positions),
        cell=np.asarray(atoms.cell.array),
        pbc=(bool(atoms.pbc[0]), bool(atoms.pbc[1]), bool(atoms.pbc[2])),
        cutoff_angstrom=2.0 * float(radii.max()),
    )
    bonded = (distances < radii[i] + radii[j]) & (i != j)
    return i[bonded], j[bonded]


def molecules(atoms: Atoms) -> tuple[int, Indices]:
    """Return the number of bonded groups of atoms, and the group of every atom (n,)."""
    i, j = bonds(atoms)
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(len(atoms), len(atoms)))
    count, group = connected_components(graph, directed=False)
    return int(count), np.asarray(group, dtype=np.intp)


def molecule_sizes(atoms: Atoms, *, largest: int) -> NDArray[np.int64]:
    """Return for every atom (n,) the number of atoms other than hydrogen in its molecule, within 1 and `largest`.

    Atoms of a network of bonds, which has no end, have the size `largest`. A group is a network when it grows with the
    cell: in a cell doubled along every periodic axis.
    """
    count, group = molecules(atoms)
    heavy = np.bincount(group, weights=np.asarray(atoms.numbers) > 1, minlength=count)
    if atoms.pbc.any():
        doubled = atoms.repeat([2 if periodic else 1 for periodic in atoms.pbc])  # type: ignore[no-untyped-call]
        _, wide = molecules(doubled)
        grown = np.bincount(wide)[wide[: len(atoms)]] > np.bincount(group)[group]
        endless = np.bincount(group, weights=grown, minlength=count) > 0
        heavy = np.where(endless, largest, heavy)
    return np.clip(heavy, 1, largest).astype(np.int64)[group]
