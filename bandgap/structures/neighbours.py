"""Pairs of atoms closer than a cutoff, with every periodic image counted, also in cells that are long and skewed."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.structures.draft import Unreadable

CLOSEST_ANGSTROM = (
    0.5  # the shortest bond is H2's, 0.74; closer means disorder, doubled atoms or a wrong unit
)
THINNEST_ANGSTROM = 0.5
# Spheres 0.5 A apart fill no volume denser than their closest packing, sqrt(2) / 0.5^3; diamond has 0.18 atoms per A^3.
DENSEST = math.sqrt(2) / CLOSEST_ANGSTROM**3
LARGEST_ANGSTROM = (
    1e5  # larger coordinates are garbage, and their squares leave no digits for distances
)
MAX_CLOSE_PAIRS = (
    1_000_000  # of atoms that are too close; 1,000 atoms at one point have half of that
)
Floats = NDArray[np.float64]
Pairs = tuple[
    NDArray[np.intp], NDArray[np.intp], Floats
]  # atoms i and j (pair,), and a number or vector of each pair


def heights(cell: Floats) -> Floats:
    """Return the three distances (3,) between opposite faces of the cell (3, 3), 0 for a cell without volume.

    Volume over area, in Python's numbers: an inverse, which a thin cell has none of, would overflow with a warning.
    """
    a, b, c = cell.tolist()
    normals = [_cross(b, c), _cross(c, a), _cross(a, b)]
    volume = abs(sum(x * y for x, y in zip(a, normals[0], strict=True)))
    areas = [math.hypot(*normal) for normal in normals]
    return np.array([volume / area if area else 0.0 for area in areas])


def _cross(a: list[float], b: list[float]) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def check_volume(cell: Floats) -> None:
    """Raise Unreadable when a cell (3, 3) has no volume, or is so thin that an atom would meet its own image."""
    thinnest = float(heights(cell).min())
    if thinnest < THINNEST_ANGSTROM:
        raise Unreadable(
            f"the unit cell has no volume: its opposite faces are {thinnest:.2g} A apart"
        )


def check_density(n_atoms: int, cell: Floats) -> None:
    """Raise Unreadable when so many atoms in a periodic cell (3, 3) cannot all be `CLOSEST_ANGSTROM` apart.

    Looks at no position, so that it bounds a search for pairs before it starts.
    """
    volume = abs(float(np.linalg.det(cell)))
    if n_atoms > DENSEST * volume:
        raise Unreadable(
            f"{n_atoms:,} atoms in a unit cell of {volume:.3g} A^3: some would be closer than"
            f" {CLOSEST_ANGSTROM} A, which is not accepted. Is the unit of the cell right?"
        )


def completed(cell: Floats, pbc: tuple[bool, bool, bool]) -> Floats:
    """Return the cell (3, 3) with unit vectors, normal to what repeats, in place of the directions that do not."""
    periodic = np.array(pbc)
    full = np.array(cell, dtype=float)
    if not periodic.all():
        full[~periodic] = (
            np.linalg.svd(full[periodic])[2][periodic.sum() :] if periodic.any() else np.eye(3)
        )
    return full


def close_pairs(
    positions: Floats,
    *,
    cell: Floats,
    pbc: tuple[bool, bool, bool],
    cutoff_angstrom: float,
    max_pairs: int | None = None,
) -> Pairs:
    """Return atoms i <= j (pair,) and their distances (pair,), Angstrom, for all pairs within the cutoff.

    positions (n, 3); an atom pairs with its own image where a cell vector is that short. The cell has passed
    `check_volume`. Raises Unreadable as `close_vectors`.
    """
    i, j, vectors = close_vectors(
        positions, cell=cell, pbc=pbc, cutoff_angstrom=cutoff_angstrom, max_pairs=max_pairs
    )
    distances: Floats = np.linalg.norm(vectors, axis=1)
    return i, j, distances


def close_vectors(
    positions: Floats,
    *,
    cell: Floats,
    pbc: tuple[bool, bool, bool],
    cutoff_angstrom: float,
    max_pairs: int | None = None,
) -> Pairs:
    """Return the pairs of `close_pairs` with the vector (pair, 3), Angstrom, from atom i to j or to the image of j.

    Raises Unreadable for more than `max_pairs` pairs of atoms and images, which are counted before any is stored.
    """
    if not any(pbc):
        first, second = _pairs(positions, cutoff_angstrom, max_pairs)
        apart: Floats = positions[second] - positions[first]
        return first, second, apart
    points, origin, shift = _with_images(
        positions, completed(cell, pbc), np.array(pbc), cutoff_angstrom
    )
    first, second = _pairs(points, cutoff_angstrom, max_pairs)  # atoms at home come before images
    i, j = origin[first], origin[second]
    image: NDArray[np.bool_] = np.any(shift, axis=1)
    keep = ~image[first] & (
        ~image[second] | (i < j) | ((i == j) & _is_positive(shift[second]))
    )  # each pair once
    vectors: Floats = points[second] - points[first]
    return i[keep], j[keep], vectors[keep]


def _pairs(
    points: Floats, cutoff_angstrom: float, max_pairs: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the points i < j (pair,) of every pair within the cutoff."""
    tree = cKDTree(points)
    if max_pairs is not None:
        n_pairs = (int(tree.count_neighbors(tree, cutoff_angstrom)) - len(points)) // 2
        if n_pairs > max_pairs:
            raise Unreadable(
                f"{n_pairs:,} pairs of atoms are closer than {cutoff_angstrom:g} A; the limit is"
                f" {max_pairs:,}. Look for doubled atoms or a wrong unit."
            )
    pairs = tree.query_pairs(cutoff_angstrom, output_type="ndarray")
    if not len(pairs):
        return pairs[:, 0], pairs[:, 1]
    return pairs.min(axis=1), pairs.max(axis=1)


def _is_positive(shift: NDArray[np.int_]) -> NDArray[np.bool_]:
    """Return whether the first number of each row that is not zero is above zero."""
    positive: NDArray[np.bool_] = shift @ np.array([10**12, 10**6, 1]) > 0
    return positive


def _with_images(
    positions: Floats, full: Floats, periodic: NDArray[np.bool_], cutoff: float
) -> tuple[Floats, NDArray[np.intp], NDArray[np.int_]]:
    """Return the atoms wrapped into the cell and their images near it, whose image each is, and moved by which cell."""
    fractional = np.linalg.solve(full.T, positions.T).T
    fractional = np.where(periodic, fractional - np.floor(fractional), fractional)
    margin = np.where(periodic, cutoff / np.maximum(heights(full), 1e-9), np.inf)
    reach = [int(np.ceil(m)) if p else 0 for m, p in zip(margin, periodic, strict=True)]
    shifts = np.array(
        sorted(itertools.product(*(range(-r, r + 1) for r in reach)), key=any)
    )  # home first
    moved = fractional + shifts[:, None]  # (shift, atom, 3)
    which, origin = np.nonzero(((moved >= -margin) & (moved <= 1 + margin)).all(axis=2))
    return moved[which, origin] @ full, origin, shifts[which]
