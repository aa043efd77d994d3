"""From a record to the shape that a viewer draws: molecules in one piece, bonds, density and shortest distances."""

import numpy as np
from ase.data import atomic_masses, covalent_radii
from numpy.typing import NDArray

from bandgap.structures.bonds import BOND
from bandgap.structures.neighbours import close_vectors, completed
from bandgap.structures.records import StructureRecord
from bandgap.structures.shapes import Shape

CONTACT_ANGSTROM = 3.5  # contacts between molecules are looked for up to this distance
GRAM_PER_CM3 = 1.66053906660  # one atomic mass unit per cubic angstrom

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def shape_of(record: StructureRecord) -> Shape | None:
    """Return the shape of a structure, None for a refused one.

    Molecules that a cell face cuts are put together, their centres in the cell; networks of bonds stay in the cell.
    """
    if record.atoms is None:
        return None
    numbers = np.asarray(record.atoms.numbers)
    cell = np.asarray(record.atoms.cell.array, dtype=np.float64)
    pbc = (bool(record.atoms.pbc[0]), bool(record.atoms.pbc[1]), bool(record.atoms.pbc[2]))
    radii = BOND * covalent_radii[numbers]
    reach = max(CONTACT_ANGSTROM, 2.0 * float(radii.max()))
    at = np.asarray(record.atoms.positions, dtype=np.float64)
    i, j, vectors = close_vectors(at, cell=cell, pbc=pbc, cutoff_angstrom=reach)
    distances = np.linalg.norm(vectors, axis=1)
    bonded = distances < radii[i] + radii[j]
    count, group, whole = _molecules(at, i[bonded], j[bonded], vectors[bonded])
    full = completed(cell, pbc)
    shifts = _shifts(whole, i, j, vectors, full)
    network = (
        np.bincount(group, weights=np.bincount(i[bonded], shifts[bonded].any(axis=1), len(numbers)))
        > 0
    )
    whole = np.where(network[group][:, None], at, whole)
    whole = _into_cell(
        whole, np.where(network[group], np.arange(len(numbers)) + count, group), full, np.array(pbc)
    )
    shifts = _shifts(whole, i, j, vectors, full)
    between = (group[i] != group[j]) | (shifts.any(axis=1) & ~network[group[i]])
    shortest, shortest_pair = _shortest(i, j, distances, np.ones(len(i), dtype=bool))
    contact, contact_pair = _shortest(i, j, distances, between & (distances <= CONTACT_ANGSTROM))
    volume = abs(float(np.linalg.det(cell)))
    return Shape(
        numbers=numbers.astype(np.uint8),
        positions=whole,
        cell=np.where(np.array(pbc)[:, None], cell, 0.0),
        pbc=np.array(pbc),
        bonds=np.stack([i[bonded], j[bonded]], axis=1).astype(np.uint16),
        shifts=np.clip(shifts[bonded], -127, 127).astype(np.int8),
        density_g_cm3=(
            float(atomic_masses[numbers].sum()) / volume * GRAM_PER_CM3
            if all(pbc)
            else float("nan")
        ),
        shortest_angstrom=shortest,
        shortest_pair=shortest_pair,
        contact_angstrom=contact,
        contact_pair=contact_pair,
        n_molecules=0 if network.any() else count,
    )


def _molecules(
    positions: Floats, i: Indices, j: Indices, vectors: Floats
) -> tuple[int, Indices, Floats]:
    """Return how many bonded groups there are, the group (n,) of every atom, and positions (n, 3) of whole groups.

    Every atom stands one bond vector from the atom that it was reached from, the first of its group where it was.
    """
    around: list[list[tuple[int, float, float, float]]] = [[] for _ in positions]
    for first, second, (x, y, z) in zip(i.tolist(), j.tolist(), vectors.tolist(), strict=True):
        around[first].append((second, x, y, z))
        around[second].append((first, -x, -y, -z))
    placed: list[list[float]] = positions.tolist()
    group = [-1] * len(placed)
    count = 0
    for start in range(len(placed)):
        if group[start] >= 0:
            continue
        group[start], reached = count, [start]
        for atom in reached:
            at = placed[atom]
            for other, x, y, z in around[atom]:
                if group[other] < 0:
                    group[other] = count
                    placed[other] = [at[0] + x, at[1] + y, at[2] + z]
                    reached.append(other)
        count += 1
    return count, np.array(group, dtype=np.intp), np.array(placed, dtype=np.float64)


def _shifts(
    positions: Floats, i: Indices, j: Indices, vectors: Floats, full: Floats
) -> NDArray[np.int64]:
    """Return the cells (pair, 3) between the vector of a pair and the atoms where they stand."""
    return np.rint((vectors - (positions[j] - positions[i])) @ np.linalg.inv(full)).astype(np.int64)


def _into_cell(
    positions: Floats, group: Indices, full: Floats, periodic: NDArray[np.bool_]
) -> Floats:
    """Return positions with every group moved by whole cells so that its centre lies in the cell."""
    fractional = positions @ np.linalg.inv(full)
    size = np.maximum(np.bincount(group), 1)
    centre = np.stack(
        [np.bincount(group, weights=fractional[:, k]) / size for k in range(3)], axis=1
    )
    cells = np.where(periodic, np.floor(centre + 1e-6), 0.0)
    return np.asarray(positions - cells[group] @ full, dtype=np.float64)


def _shortest(
    i: Indices, j: Indices, distances: Floats, chosen: NDArray[np.bool_]
) -> tuple[float, tuple[int, int]]:
    rows = np.flatnonzero(chosen)
    if not rows.size:
        return float("nan"), (0, 0)
    best = int(rows[np.argmin(distances[rows])])
    return float(distances[best]), (int(i[best]), int(j[best]))
