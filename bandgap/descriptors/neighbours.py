"""What the neighbours of atoms are: differences of element properties, distances and numbers, as features.

After L. Ward et al., Including crystal structure attributes in machine learning models of formation energies via
Voronoi tessellations, Phys. Rev. B 96, 024104 (2017). In place of the faces of Voronoi cells, which the outer atoms of
molecules lack, a smoothed Gabriel graph (K. R. Gabriel and R. R. Sokal, Syst. Zool. 18, 259 (1969)) says who is a
neighbour: an atom k hides j from i where it lies in the sphere with the diameter ij, and less and less up to an
equilateral triangle. A neighbour at d that nobody hides has the weight d^-2 (1 - (d / 6)^2)^2, d in Angstrom. In rock
salt these are the six ions of the other kind, in zinc blende the four. A cell of 144 atoms takes 25 ms; Qhull alone
takes 110 ms for the Voronoi cells of such a cell and its surroundings.

Of every atom: the weighted mean of |p - p'| for each element property p, the effective number of neighbours, their mean
distance, its deviation, and the mean distance in sums of covalent radii. Of each of these the mean over atoms, the mean
absolute deviation, the smallest, the largest and their difference.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.element_properties import (
    KNOWN,
    PROPERTIES,
    element_properties,
    scaled_properties,
)
from bandgap.descriptors.parts import Part

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FARTHEST_ANGSTROM: Final = 6.0
LEAST: Final = (
    1e-3  # added to the sum of an atom's weights: what leaves an atom alone does so without a jump
)
GEOMETRY: Final = (
    "effective number of neighbours",
    "mean distance",
    "its deviation",
    "mean relative distance",
)
STATISTICS: Final = ("mean", "mean absolute deviation", "smallest", "largest", "range")
WIDTH: Final = len(STATISTICS) * (len(PROPERTIES) + len(GEOMETRY))


def neighbours(atoms: "Atoms", wanted: bool = True) -> Floats:
    """Return the statistics (130,) over atoms of their environments."""
    found = environments(atoms)
    mean, smallest, largest = found.mean(axis=0), found.min(axis=0), found.max(axis=0)
    deviation = np.abs(found - mean).mean(axis=0)
    return np.concatenate([mean, deviation, smallest, largest, largest - smallest])


def environments(atoms: "Atoms") -> Floats:
    """Return what is told of each atom (n, 26): differences of the scaled properties, then GEOMETRY.

    An atom without neighbours differs from none, and has 0 of them at distance 0.
    """
    numbers = np.asarray(atoms.numbers)
    i, j, vectors = _pairs(atoms)
    n, distances, weight = len(numbers), np.linalg.norm(vectors, axis=1), weights(i, vectors)
    total = np.bincount(i, weight, minlength=n)
    share = weight / (total[i] + LEAST)
    elements, kind = np.unique(numbers, return_inverse=True)
    by_element = np.zeros((n, len(elements)))
    np.add.at(by_element, (i, kind[j]), share)
    properties = scaled_properties()[elements - 1]
    apart = np.abs(properties[:, None] - properties)  # (element, element, property)
    differences = np.einsum("ae,aep->ap", by_element, apart[kind])
    count = total**2 / (np.bincount(i, weight**2, minlength=n) + LEAST**2)
    mean = np.bincount(i, share * distances, minlength=n)
    deviation = np.bincount(i, share * np.abs(distances - mean[i]), minlength=n)
    radii = element_properties()[numbers - 1, PROPERTIES.index("covalent radius (pm)")] / 100.0
    relative = np.bincount(i, share * distances / (radii[i] + radii[j]), minlength=n)
    return np.column_stack([differences, count, mean, deviation, relative])


def weights(i: Indices, vectors: Floats) -> Floats:
    """Return the weight (pair,) of every neighbour, which stands at `vectors` (pair, 3) from the atom i (pair,).

    The pairs are in the order of i. Of a neighbour at v, the atom at u hides 1 - s(2 (u u - u v) / (v v)), where s
    rises from 0 to 1 between 0, on the sphere or inside, and 1, in an equilateral triangle.
    """
    squares = np.einsum("pc,pc->p", vectors, vectors)
    found: Floats = np.maximum(1.0 - squares / FARTHEST_ANGSTROM**2, 0.0) ** 2 / squares
    ends = np.flatnonzero(np.diff(i)) + 1
    for start, stop in zip([0, *ends], [*ends, len(i)], strict=True):
        own, square = vectors[start:stop], squares[start:stop]
        place = np.clip(
            2.0 * (square - own @ own.T) / square[:, None], 0.0, 1.0
        )  # (neighbour, who may hide it)
        np.fill_diagonal(place, 1.0)
        found[start:stop] *= np.prod(place**2 * (3.0 - 2.0 * place), axis=1)
    return found


def _pairs(atoms: "Atoms") -> tuple[Indices, Indices, Floats]:
    """Return atoms i in their order, their neighbours j, and the vectors (pair, 3) to these, of all that are near."""
    from bandgap.structures.neighbours import close_vectors

    i, j, vectors = close_vectors(
        np.asarray(atoms.positions),
        cell=np.asarray(atoms.cell.array),
        pbc=(bool(atoms.pbc[0]), bool(atoms.pbc[1]), bool(atoms.pbc[2])),
        cutoff_angstrom=FARTHEST_ANGSTROM,
    )
    first, second = np.concatenate([i, j]), np.concatenate([j, i])
    order = np.argsort(first, kind="stable")
    return first[order], second[order], np.concatenate([vectors, -vectors])[order]


PART: Final = Part(
    "neighbours",
    width=lambda wanted: WIDTH if wanted else 0,
    name=lambda wanted: "neighbours",
    describe=neighbours,
    elements=lambda wanted: KNOWN,
    alike=True,
)
