"""One term of the MBTR of one structure, by DScribe's compiled loops.

The loops are called directly (`dscribe.ext`) with arguments of their types. The Python classes of
DScribe 2.1.2 fail with ASE 3.27 and later, copy every structure three times and load scikit-learn.
A test checks that the results are bitwise equal to theirs.

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives,
J. Chem. Phys. 158, 234802 (2023).
"""

import math
import sys
from functools import lru_cache
from typing import cast

import numpy as np
from ase import Atoms
from dscribe.ext import MBTRWrapper
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.descriptors.config import DescriptorConfig, Term
from bandgap.structures.elements import ELEMENTS

Floats = NDArray[np.float64]

# Number of compositions whose k1 is cached.
COMPOSITIONS = 4096


def term_of(atoms: Atoms, config: DescriptorConfig, *, order: int, term: Term) -> Floats:
    """Return a term (feature,) of a structure, with Gaussians of height 1, not normalised.

    The result may be read-only. A periodic structure must have a cell with its atoms inside.
    Raises what DScribe raises.
    """
    # The height of a Gaussian of area 1, which the loops add up.
    height = 1.0 / (term.sigma * math.sqrt(2.0 * math.pi))
    if order == 1:
        return _k1(config.species, term, height, tuple(sorted(atoms.numbers.tolist())))
    n_species = len(config.species)
    n_grids = n_species * (n_species + 1) // 2 * (1 if order == 2 else n_species)
    values = np.zeros(n_grids * term.n)
    _add_neighbours(values, atoms, config.species, order, term)
    values /= height
    return values


@lru_cache(maxsize=COMPOSITIONS)
def _k1(species: tuple[str, ...], term: Term, height: float, numbers: tuple[int, ...]) -> Floats:
    """Return k1, which depends only on the sorted atomic numbers."""
    values = np.zeros(len(species) * term.n)
    wrapper = MBTRWrapper(_index_of_element(species), len(numbers), [])
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    wrapper.get_k1(values, list(numbers), term.function.encode(), b"unity", {}, *grid)
    values /= height
    values.flags.writeable = False
    return values


def _add_neighbours(
    values: Floats, atoms: Atoms, species: tuple[str, ...], order: int, term: Term
) -> None:
    """Add pairs (order 2) or triples (order 3) to `values`."""
    assert term.cutoff_angstrom is not None  # checked by `Term` for every weighting of k2 and k3
    parameters: dict[bytes, float] = {}
    cutoff = term.cutoff_angstrom
    if term.weighting == "exp":
        assert term.threshold is not None  # checked by `Term`
        # The exponent of k3 contains half the perimeter of the triple.
        scale = -math.log(term.threshold) / cutoff * (1.0 if order == 2 else 0.5)
        parameters = {b"scale": scale, b"threshold": term.threshold}
    elif term.weighting == "smooth_cutoff":
        parameters = {b"sharpness": 2, b"cutoff": cutoff}
        cutoff *= 2.0  # two neighbours of an atom are up to this far apart
    n = len(atoms)
    numbers, positions, images = _surroundings(atoms, cutoff)
    tree = cKDTree(positions)
    pairs = tree.sparse_distance_matrix(tree, cutoff, output_type="ndarray")
    if order == 2:  # of atoms i < j with i in the cell, since the loops skip all other pairs
        pairs = pairs[(pairs["i"] < pairs["j"]) & (pairs["i"] < n)]
    neighbours: list[list[int]] = [[] for _ in range(len(numbers))]
    distances = np.full((n if order == 2 else len(numbers), len(numbers)), sys.float_info.max)
    distances[pairs["i"], pairs["j"]] = pairs["v"]
    for i, j in zip(pairs["i"].tolist(), pairs["j"].tolist(), strict=True):
        neighbours[i].append(j)
    wrapper = MBTRWrapper(_index_of_element(species), n, images.tolist())
    add = wrapper.get_k2 if order == 2 else wrapper.get_k3
    rows = distances.tolist() if order == 2 else distances  # all pairs of objects are gigabytes
    structure = (numbers.tolist(), positions.tolist(), rows, neighbours)
    functions = (term.function.encode(), term.weighting.encode(), parameters)
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    add(values, np.zeros((0, 0, 0)), True, False, *structure, *functions, *grid)


def _surroundings(
    atoms: Atoms, cutoff_angstrom: float
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Return numbers, positions and cell indices (3,) of the atoms and of images within the cutoff.

    The atoms of the cell come first.
    """
    if not atoms.pbc.any():
        return atoms.numbers, atoms.positions, np.zeros((len(atoms), 3), dtype=np.int64)
    from dscribe.utils.geometry import get_extended_system

    extended, images = get_extended_system(
        atoms, cutoff_angstrom, atoms.positions, return_cell_indices=True
    )
    return extended.numbers, extended.positions, cast("NDArray[np.int64]", images)


@lru_cache(maxsize=16)
def _index_of_element(species: tuple[str, ...]) -> dict[int, int]:
    """Return the index of every element in the sorted species, by atomic number."""
    numbers = sorted(ELEMENTS.index(symbol) + 1 for symbol in species)
    return {z: index for index, z in enumerate(numbers)}
