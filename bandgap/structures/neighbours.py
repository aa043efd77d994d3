"""Find the pairs of atoms within a cutoff, with all periodic images, in cells of any shape."""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from bandgap.structures.draft import Unreadable

if TYPE_CHECKING:
    from ase import Atoms

# Smallest distance of two atoms. The shortest bond, of H2, has 0.74 A; closer atoms mean disorder,
# doubled atoms or a wrong unit.
CLOSEST_ANGSTROM = 0.5
THINNEST_ANGSTROM = 0.5  # smallest distance of opposite faces of a cell
# A cell in nm that is read in A: the thinnest ones are about 2 A thin.
THINNEST_IN_NANOMETRES = 0.15
IN_NANOMETRES = "Is the unit of the cell nm? Then multiply all lengths by 10."
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
# Up to this number of atoms, the differences of all pairs are faster than a search tree.
_FEW_ATOMS = 40
# Distances of an atom to the nearest one, divided by the sum of the covalent radii, with a bond.
SHORTEST_BOND = 0.68
LONGEST_BOND = 1.4
USUAL_VOLUMES = (5.0, 60.0)  # per atom, cubic Angstrom
MAX_CLOSE_PAIRS = 1_000_000  # of atoms that are too close; 1,000 atoms at one point have half of it
Floats = NDArray[np.float64]
# Atoms i and j (pair,), and a distance (pair,) or vector (pair, 3).
Pairs = tuple[NDArray[np.intp], NDArray[np.intp], Floats]


def heights(cell: Floats) -> Floats:
    """Return the distances (3,) between opposite faces of a cell (3, 3), 0 without volume.

    A distance is the volume divided by the area of the face. The inverse of the cell is not used,
    because a thin cell has none. The array is read-only.
    """
    return _heights(tuple(map(tuple, cell.tolist())))


@lru_cache(maxsize=8)
def _heights(vectors: tuple[tuple[float, ...], ...]) -> Floats:
    a, b, c = vectors
    normals = [_cross(b, c), _cross(c, a), _cross(a, b)]
    volume = abs(sum(x * y for x, y in zip(a, normals[0], strict=True)))
    areas = [math.hypot(*normal) for normal in normals]
    widths = np.array([volume / area if area else 0.0 for area in areas])
    widths.setflags(write=False)
    return widths


def _cross(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def cell_volume(cell: Floats) -> float:
    """Return the volume of a cell (3, 3). For one cell, Python is faster than NumPy."""
    a, b, c = cell.tolist()
    return abs(float(sum(x * y for x, y in zip(a, _cross(b, c), strict=True))))


def check_volume(cell: Floats) -> None:
    """Raise Unreadable if a cell (3, 3) has no volume or is thinner than `THINNEST_ANGSTROM`."""
    thinnest = min(heights(cell).tolist())
    if thinnest < THINNEST_ANGSTROM:
        text = f"the unit cell has no volume: its opposite faces are {thinnest:.2g} A apart"
        raise Unreadable(f"{text}. {IN_NANOMETRES}" if thinnest > THINNEST_IN_NANOMETRES else text)


def check_density(n_atoms: int, cell: Floats) -> None:
    """Raise Unreadable if the atoms of a periodic cell (3, 3) must be closer than the limit.

    The positions are not needed, so that this check can bound the cost of a search for pairs.
    """
    volume = cell_volume(cell)
    if n_atoms > DENSEST * volume:
        raise Unreadable(
            f"{n_atoms:,} atoms in a unit cell of {volume:.3g} A^3: some would be closer than"
            f" {CLOSEST_ANGSTROM} A, which is not accepted."
            f" {cell_unit(volume / n_atoms) or 'Is the unit of the cell right?'}"
        )


def cell_unit(volume_per_atom: float) -> str:
    """Return the question whether lengths are in nm or pm, "" if neither gives a usual volume.

    `volume_per_atom` is in cubic Angstrom if the lengths are in Angstrom.
    """
    smallest, largest = USUAL_VOLUMES
    if smallest <= volume_per_atom * 1e3 <= largest:
        return IN_NANOMETRES
    if smallest <= volume_per_atom * 1e-6 <= largest:
        return "Is the unit of the cell pm? Then divide all lengths by 100."
    return ""


def check_images(n_atoms: int, cell: Floats, pbc: tuple[bool, bool, bool]) -> None:
    """Raise Unreadable if a thin periodic cell (3, 3) has too many images of atoms around it."""
    all_widths = heights(complete_cell(cell, pbc)).tolist()
    widths = [width for width, is_periodic in zip(all_widths, pbc, strict=True) if is_periodic]
    n_images = n_atoms * math.prod(1 + 2 * IMAGES_ANGSTROM / width for width in widths)
    if n_images > MAX_IMAGES:
        raise Unreadable(
            f"the unit cell with {n_atoms:,} atoms is {min(widths):.2g} A thin, so that"
            f" {n_images:,.0f} copies of atoms are within {IMAGES_ANGSTROM} A of it; no crystal has"
            " such a cell. Is the unit of the cell right?"
        )


def nearest_ratio(atom: int, numbers: NDArray[np.int_], vectors: Floats) -> float:
    """Return the smallest distance from an atom, divided by the sum of the covalent radii.

    `vectors` (copy * n, 3) lead from the atom to all n atoms, repeated for their images. The result
    is infinite without another atom.
    """
    from ase.data import covalent_radii  # the dashboard imports this module without ASE

    squares = np.einsum("ij,ij->i", vectors, vectors)
    squares[squares < 1e-12] = np.inf  # the atom itself
    nearest = squares.reshape(-1, len(numbers)).min(axis=0)
    radii = covalent_radii[numbers]
    return float((np.sqrt(nearest) / (radii + radii[atom])).min())


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


def complete_cell(cell: Floats, pbc: Sequence[bool] | NDArray[np.bool_]) -> Floats:
    """Return a cell (3, 3) of full rank for a structure that may have fewer periodic directions.

    Vectors that are not periodic are replaced by unit vectors normal to the periodic ones.
    """
    full = np.array(cell, dtype=float)
    if not all(pbc):
        periodic = np.array(pbc)
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
        first, second = _pairs(positions, cutoff_angstrom, max_pairs, n_first=len(positions))
        differences: Floats = positions[second] - positions[first]
        return first, second, differences
    full = complete_cell(cell, pbc)
    if all(pbc) and len(positions) <= _FEW_ATOMS and _are_apart(positions, full, cutoff_angstrom):
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros((0, 3))
    points, atom_of_point, shifts = with_images(positions, full, np.array(pbc), cutoff_angstrom)
    # Atoms come before images.
    first, second = _pairs(points, cutoff_angstrom, max_pairs, n_first=len(positions))
    i = atom_of_point[first]
    j = atom_of_point[second]
    # Each pair with an image is found twice; one of the two is kept.
    keep = (second < len(positions)) | (i < j) | ((i == j) & _is_positive(shifts[second]))
    vectors: Floats = points[second] - points[first]
    return i[keep], j[keep], vectors[keep]


def close_vectors_of(atoms: "Atoms", cutoff_angstrom: float) -> Pairs:
    """Return the pairs and vectors of `close_vectors` for the atoms of a structure."""
    periodic_a, periodic_b, periodic_c = atoms.pbc.tolist()
    return close_vectors(
        np.asarray(atoms.positions, dtype=np.float64),
        cell=np.asarray(atoms.cell.array, dtype=np.float64),
        pbc=(periodic_a, periodic_b, periodic_c),
        cutoff_angstrom=cutoff_angstrom,
    )


def bonded_groups(
    n_atoms: int, i: NDArray[np.integer], j: NDArray[np.integer]
) -> tuple[int, NDArray[np.intp]]:
    """Return the number of groups of atoms with these bonds, and the group of every atom (n,)."""
    graph = coo_array((np.ones(len(i)), (i, j)), shape=(n_atoms, n_atoms))
    count, group = connected_components(graph, directed=False)
    return int(count), np.asarray(group, dtype=np.intp)


def _are_apart(positions: Floats, cell: Floats, cutoff_angstrom: float) -> bool:
    """Return whether no atom of a crystal is within the cutoff of an image, without a search.

    False if it is not certain. Two points whose fractional coordinates along one axis differ by x,
    modulo 1, are at least x times the distance of the faces apart.
    """
    widths = heights(cell)
    if widths.min() <= cutoff_angstrom:
        return False
    fractional = np.linalg.solve(cell.T, positions.T).T
    differences = fractional[:, None] - fractional
    differences -= np.round(differences)
    may_be_close = (np.abs(differences) * widths <= cutoff_angstrom + 1e-9).all(axis=2)
    return bool(np.count_nonzero(may_be_close) <= len(positions))  # each is close to itself


def _pairs(
    points: Floats, cutoff_angstrom: float, max_pairs: int | None, *, n_first: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the points i < j (pair,) of every pair within the cutoff, i < `n_first`.

    The pairs are counted before they are stored, where there can be too many.
    """
    n = len(points)
    if n < 2:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    tree = cKDTree(points)
    if max_pairs is not None and n * (n - 1) // 2 > max_pairs:
        n_pairs = (int(tree.count_neighbors(tree, cutoff_angstrom)) - n) // 2
        if n_pairs > max_pairs:
            raise Unreadable(
                f"{n_pairs:,} pairs of atoms are closer than {cutoff_angstrom:g} A; the limit is"
                f" {max_pairs:,}. Look for doubled atoms or a wrong unit."
            )
    pairs = cKDTree(points[:n_first]).sparse_distance_matrix(
        tree, cutoff_angstrom, output_type="ndarray"
    )
    pairs = pairs[pairs["i"] < pairs["j"]]
    return pairs["i"], pairs["j"]


def _is_positive(shift: NDArray[np.int_]) -> NDArray[np.bool_]:
    """Return whether the first non-zero number of each row is positive."""
    positive: NDArray[np.bool_] = shift @ np.array([10**12, 10**6, 1]) > 0
    return positive


def with_images(
    positions: Floats, full: Floats, periodic: NDArray[np.bool_], cutoff: float
) -> tuple[Floats, NDArray[np.intp], NDArray[np.int_]]:
    """Return the atoms in the cell and their images within the cutoff around it.

    The result is the points (point, 3), the atom of each point (point,), and the cell (point, 3) by
    which it is shifted; the atoms, with shift zero, come first.
    """
    n = len(positions)
    fractional = np.linalg.solve(full.T, positions.T).T
    fractional = np.where(periodic, fractional - np.floor(fractional), fractional)
    margin = np.where(periodic, cutoff / np.maximum(heights(full), 1e-9), np.inf)
    shifts = _shifts(
        *(math.ceil(m) if p else 0 for m, p in zip(margin.tolist(), periodic.tolist(), strict=True))
    )
    # Only atoms near a face have images; the rounding of the sums below is less than 1e-9.
    is_near_face = (fractional <= margin + 1e-9) | (fractional >= 1 - margin - 1e-9)
    near_faces = np.flatnonzero((is_near_face & periodic).any(axis=1))
    shifted = fractional[near_faces] + shifts[:, None]  # (shift, atom, 3)
    shift_of_image, place = np.nonzero(((shifted >= -margin) & (shifted <= 1 + margin)).all(axis=2))
    points = np.concatenate((fractional, shifted[shift_of_image, place]))
    atom_of_point = np.concatenate((np.arange(n), near_faces[place]))
    shift_of_point = np.concatenate((np.zeros((n, 3), dtype=int), shifts[shift_of_image]))
    return points @ full, atom_of_point, shift_of_point


@lru_cache(maxsize=8)
def _shifts(*reach: int) -> NDArray[np.int_]:
    """Return the shifts (shift, 3) of a cell by up to `reach` cells in each direction, not zero."""
    all_shifts = itertools.product(*(range(-r, r + 1) for r in reach))
    shifts = np.array([shift for shift in all_shifts if any(shift)], dtype=int).reshape(-1, 3)
    shifts.setflags(write=False)
    return shifts
