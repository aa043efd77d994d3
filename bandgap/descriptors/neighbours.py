"""The neighbours of atoms as features: differences of element properties, distances and numbers.

After L. Ward et al., Including crystal structure attributes in machine learning models of
formation energies via Voronoi tessellations, Phys. Rev. B 96, 024104 (2017). The outer atoms of
molecules have no closed Voronoi cells, so a smoothed Gabriel graph (K. R. Gabriel and R. R. Sokal,
Syst. Zool. 18, 259 (1969)) replaces them. An atom k hides the atom j from i if k is in the sphere
with the diameter ij. Outside of the sphere it hides j partly, and no longer where i, j and k form
an equilateral triangle. A neighbour at the distance d that no atom hides has the weight
d^-2 (1 - (d / 6)^2)^2, with d in angstrom. In rock salt these are the six ions of the other kind,
in zinc blende the four.

Each atom has the weighted mean of |p - p'| for each element property p, the effective number of
neighbours, their mean distance, the deviation of the distance, and the mean distance in units of
the sum of the covalent radii. The features are the mean of each over atoms, the mean absolute
deviation, the smallest value, the largest value and their difference.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block
from bandgap.descriptors.element_properties import (
    PROPERTIES,
    TABLE_ELEMENTS,
    element_properties,
    scaled_properties,
)

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

CUTOFF_ANGSTROM: Final = 6.0
# Added to the sum of an atom's weights, so that the features do not jump when an atom loses its
# last neighbour.
SMALLEST_WEIGHT: Final = 1e-3
GEOMETRY: Final = (
    "effective number of neighbours",
    "mean distance",
    "its deviation",
    "mean relative distance",
)
STATISTICS: Final = ("mean", "mean absolute deviation", "smallest", "largest", "range")
WIDTH: Final = len(STATISTICS) * (len(PROPERTIES) + len(GEOMETRY))


def neighbours(atoms: "Atoms", is_requested: bool = True) -> Floats:
    """Return the statistics (130,) of the environments over atoms."""
    values = environments(atoms)
    mean = values.mean(axis=0)
    smallest = values.min(axis=0)
    largest = values.max(axis=0)
    deviation = np.abs(values - mean).mean(axis=0)
    return np.concatenate([mean, deviation, smallest, largest, largest - smallest])


def environments(atoms: "Atoms") -> Floats:
    """Return the environment of each atom (n, 26): differences of the scaled properties, GEOMETRY.

    An atom without neighbours has differences of 0, and 0 neighbours at distance 0.
    """
    numbers = np.asarray(atoms.numbers)
    n = len(numbers)
    i, j, vectors = _pairs(atoms)
    distances = np.linalg.norm(vectors, axis=1)
    weight = weights(i, vectors)
    total = np.bincount(i, weight, minlength=n)
    share = weight / (total[i] + SMALLEST_WEIGHT)
    elements, kind = np.unique(numbers, return_inverse=True)
    share_of_element = np.zeros((n, len(elements)))
    np.add.at(share_of_element, (i, kind[j]), share)
    properties = scaled_properties()[elements - 1]
    # (element, element, property)
    between_elements = np.abs(properties[:, None] - properties)
    differences = np.einsum("ae,aep->ap", share_of_element, between_elements[kind])
    count = total**2 / (np.bincount(i, weight**2, minlength=n) + SMALLEST_WEIGHT**2)
    mean = np.bincount(i, share * distances, minlength=n)
    deviation = np.bincount(i, share * np.abs(distances - mean[i]), minlength=n)
    radii = element_properties()[numbers - 1, PROPERTIES.index("covalent radius (pm)")] / 100.0
    relative = np.bincount(i, share * distances / (radii[i] + radii[j]), minlength=n)
    return np.column_stack([differences, count, mean, deviation, relative])


def weights(i: Indices, vectors: Floats) -> Floats:
    """Return the weight (pair,) of every neighbour.

    Parameters
    ----------
    i
        Atom of each pair (pair,), ascending.
    vectors
        Vector from the atom to its neighbour (pair, 3) in angstrom.
    """
    from bandgap.descriptors.hidden_neighbours import visible_parts

    squares = np.einsum("pc,pc->p", vectors, vectors)
    values: Floats = np.maximum(1.0 - squares / CUTOFF_ANGSTROM**2, 0.0) ** 2 / squares
    starts = np.flatnonzero(np.diff(i, prepend=-1, append=-1))
    visible_parts(starts, vectors, values)
    return values


def _pairs(atoms: "Atoms") -> tuple[Indices, Indices, Floats]:
    """Return atoms i, ascending, neighbours j and vectors (pair, 3) of pairs within the cutoff."""
    from bandgap.structures.neighbours import close_vectors_of

    i, j, vectors = close_vectors_of(atoms, CUTOFF_ANGSTROM)
    first = np.concatenate([i, j])
    second = np.concatenate([j, i])
    order = np.argsort(first, kind="stable")
    return first[order], second[order], np.concatenate([vectors, -vectors])[order]


BLOCK: Final = Block(
    "neighbours",
    width=lambda is_requested: WIDTH if is_requested else 0,
    name=lambda is_requested: "neighbours",
    describe=neighbours,
    elements=lambda is_requested: TABLE_ELEMENTS,
    measures_similarity=True,
)
