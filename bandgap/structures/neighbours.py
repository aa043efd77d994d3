"""Find the pairs of atoms within a cutoff, with all periodic images, in cells of any shape."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.structures.draft import Unreadable

# Smallest distance of two atoms. The shortest bond, of H2, has 0.74 A; closer atoms mean disorder,
# doubled atoms or a wrong unit.
CLOSEST_ANGSTROM = 0.5
THINNEST_ANGSTROM = 0.5  # smallest distance of opposite faces of a cell
# Largest number of atoms in 1 A^3: closest packing of points CLOSEST_ANGSTROM apart. Diamond has
# 0.18 atoms per A^3.
DENSEST = math.sqrt(2) / CLOSEST_ANGSTROM**3
# Larger coordinates are errors, and their squares have no digits left for distances.
LARGEST_ANGSTROM = 1e5
# Two listed atoms closer than this are one atom listed twice; disordered atoms are 0.1 A apart or
# more.
REPEAT_ANGSTROM = 0.05
# Distance within which images of atoms are needed later, and their largest number. A cell of 1,000
# atoms that is 20 A wide has 2,500.
IMAGES_ANGSTROM = 3.5
MAX_IMAGES = 20_000
MAX_CLOSE_PAIRS = 1_000_000  # of atoms that are too close; 1,000 atoms at one point have half of it
Floats = NDArray[np.float64]
# Atoms i and j (pair,), and a distance (pair,) or vector (pair, 3).
Pairs = tuple[NDArray[np.intp], NDArray[np.intp], Floats]


def heights(cell: Floats) -> Floats:
    """Return the distances (3,) between opposite faces of a cell (3, 3), 0 without volume.

    A distance is the volume divided by the area of the face. The inverse of the cell is not used,
    because a thin cell has none.
    """
    a, b, c = cell.tolist()
    normals = [_cross(b, c), _cross(c, a), _cross(a, b)]
    volume = abs(sum(x * y for x, y in zip(a, normals[0], strict=True)))
    areas = [math.hypot(*normal) for normal in normals]
    return np.array([volume / area if area else 0.0 for area in areas])


def _cross(a: list[float], b: list[float]) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def check_volume(cell: Floats) -> None:
    """Raise Unreadable if a cell (3, 3) has no volume or is thinner than `THINNEST_ANGSTROM`."""
    thinnest = float(heights(cell).min())
    if thinnest < THINNEST_ANGSTROM:
        raise Unreadable(
            f"the unit cell has no volume: its opposite faces are {thinnest:.2g} A apart"
        )


def check_density(n_atoms: int, cell: Floats) -> None:
    """Raise Unreadable if the atoms of a periodic cell (3, 3) must be closer than the limit.

    The positions are not needed, so that this check can bound the cost of a search for pairs.
    """
    volume = abs(float(np.linalg.det(cell)))
    if n_atoms > DENSEST * volume:
        raise Unreadable(
            f"{n_atoms:,} atoms in a unit cell of {volume:.3g} A^3: some would be closer than"
            f" {CLOSEST_ANGSTROM} A, which is not accepted. Is the unit of the cell right?"
        )


def check_images(n_atoms: int, cell: Floats, pbc: tuple[bool, bool, bool]) -> None:
    """Raise Unreadable if a thin periodic cell (3, 3) has too many images of atoms around it."""
    widths = heights(complete_cell(cell, pbc))[np.array(pbc)]
    n_images = n_atoms * float(np.prod(1 + 2 * IMAGES_ANGSTROM / widths))
    if n_images > MAX_IMAGES:
        raise Unreadable(
            f"the unit cell with {n_atoms:,} atoms is {widths.min():.2g} A thin, so that"
            f" {n_images:,.0f} copies of atoms are within {IMAGES_ANGSTROM} A of it; no crystal has"
            " such a cell. Is the unit of the cell right?"
        )


def repeated_atoms(
    first: NDArray[np.intp], second: NDArray[np.intp], elements: list[str]
) -> NDArray[np.bool_]:
    """Return a mask (n,) of the atoms that repeat an earlier one of the same element.

    `first` and `second` (pair,) are the atoms of every pair at the same place.
    """
    is_repeat = np.zeros(len(elements), dtype=bool)
    for i, j in sorted(zip(first.tolist(), second.tolist(), strict=True)):
        if i != j and not is_repeat[i] and elements[i] == elements[j]:
            is_repeat[j] = True
    return is_repeat


def complete_cell(cell: Floats, pbc: tuple[bool, bool, bool]) -> Floats:
    """Return a cell (3, 3) of full rank for a structure that may have fewer periodic directions.

    Vectors that are not periodic are replaced by unit vectors normal to the periodic ones.
    """
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
    """Return the pairs of atoms within a cutoff, and their distances.

    Parameters
    ----------
    positions
        Positions (n, 3), Angstrom.
    cell
        Cell vectors as rows (3, 3), Angstrom, which have passed `check_volume`.
    pbc
        Whether each cell vector is periodic.
    cutoff_angstrom
        Largest distance.
    max_pairs
        Largest number of pairs of atoms and images, None for any.

    Returns
    -------
    i, j, distances
        Atoms i <= j (pair,) and distances (pair,), Angstrom. i = j is an atom and its own image.

    Raises
    ------
    Unreadable
        If there are more than `max_pairs` pairs.
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
    """Return the pairs of `close_pairs` and the vectors (pair, 3), Angstrom, from atom i to j.

    A vector leads to the image of atom j that is close. Parameters and errors are those of
    `close_pairs`.
    """
    if not any(pbc):
        first, second = _pairs(positions, cutoff_angstrom, max_pairs)
        differences: Floats = positions[second] - positions[first]
        return first, second, differences
    points, atom_of_point, shifts = _with_images(
        positions, complete_cell(cell, pbc), np.array(pbc), cutoff_angstrom
    )
    first, second = _pairs(points, cutoff_angstrom, max_pairs)  # atoms come before images
    i = atom_of_point[first]
    j = atom_of_point[second]
    is_image: NDArray[np.bool_] = np.any(shifts, axis=1)
    # Each pair with an image is found twice; one of the two is kept.
    keep = ~is_image[first] & (
        ~is_image[second] | (i < j) | ((i == j) & _is_positive(shifts[second]))
    )
    vectors: Floats = points[second] - points[first]
    return i[keep], j[keep], vectors[keep]


def _pairs(
    points: Floats, cutoff_angstrom: float, max_pairs: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the points i < j (pair,) of every pair within the cutoff.

    The pairs are counted before they are stored.
    """
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
    """Return whether the first non-zero number of each row is positive."""
    positive: NDArray[np.bool_] = shift @ np.array([10**12, 10**6, 1]) > 0
    return positive


def _with_images(
    positions: Floats, full: Floats, periodic: NDArray[np.bool_], cutoff: float
) -> tuple[Floats, NDArray[np.intp], NDArray[np.int_]]:
    """Return the atoms in the cell and their images within the cutoff around it.

    The result is the points (point, 3), the atom of each point (point,), and the cell (point, 3) by
    which it is shifted; the atoms, with shift zero, come first.
    """
    fractional = np.linalg.solve(full.T, positions.T).T
    fractional = np.where(periodic, fractional - np.floor(fractional), fractional)
    margin = np.where(periodic, cutoff / np.maximum(heights(full), 1e-9), np.inf)
    reach = [int(np.ceil(m)) if p else 0 for m, p in zip(margin, periodic, strict=True)]
    all_shifts = itertools.product(*(range(-r, r + 1) for r in reach))
    shifts = np.array(sorted(all_shifts, key=any))  # zero first
    shifted = fractional + shifts[:, None]  # (shift, atom, 3)
    shift_of_point, atom_of_point = np.nonzero(
        ((shifted >= -margin) & (shifted <= 1 + margin)).all(axis=2)
    )
    return shifted[shift_of_point, atom_of_point] @ full, atom_of_point, shifts[shift_of_point]
