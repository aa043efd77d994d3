"""Compute the shape of a record for a viewer: whole molecules, bonds, density and distances."""

import numpy as np
from ase.data import atomic_masses, covalent_radii
from numpy.typing import NDArray

from bandgap.structures.bonds import BOND
from bandgap.structures.formula import GRAMS_PER_CM3
from bandgap.structures.neighbours import close_vectors_of, complete_cell
from bandgap.structures.records import StructureRecord
from bandgap.structures.shapes import Shape

CONTACT_ANGSTROM = 3.5  # largest distance of a contact between molecules

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def shape_of(record: StructureRecord) -> Shape | None:
    """Return the shape of a structure, None for a refused one.

    Molecules that cross a cell face are made whole, with their centres in the cell. The atoms of
    infinite networks of bonds stay in the cell.
    """
    if record.atoms is None:
        return None
    numbers = np.asarray(record.atoms.numbers)
    cell = np.asarray(record.atoms.cell.array, dtype=np.float64)
    pbc = np.array(record.atoms.pbc)
    radii = BOND * covalent_radii[numbers]
    reach = max(CONTACT_ANGSTROM, 2.0 * float(radii.max()))
    positions = np.asarray(record.atoms.positions, dtype=np.float64)
    i, j, vectors = close_vectors_of(record.atoms, reach)
    distances = np.linalg.norm(vectors, axis=1)
    bonded = distances < radii[i] + radii[j]
    count, group, molecule_positions = _molecules(positions, i[bonded], j[bonded], vectors[bonded])
    full = complete_cell(cell, pbc)
    shifts = _shifts(molecule_positions, i, j, vectors, full)
    network = (
        np.bincount(group, weights=np.bincount(i[bonded], shifts[bonded].any(axis=1), len(numbers)))
        > 0
    )
    molecule_positions = np.where(network[group][:, None], positions, molecule_positions)
    molecule_positions = _into_cell(
        molecule_positions,
        np.where(network[group], np.arange(len(numbers)) + count, group),
        full,
        pbc,
    )
    shifts = _shifts(molecule_positions, i, j, vectors, full)
    is_contact = (group[i] != group[j]) | (shifts.any(axis=1) & ~network[group[i]])
    shortest, shortest_pair = _shortest(i, j, distances, np.ones(len(i), dtype=bool))
    contact, contact_pair = _shortest(i, j, distances, is_contact & (distances <= CONTACT_ANGSTROM))
    volume = abs(float(np.linalg.det(cell)))
    return Shape(
        numbers=numbers.astype(np.uint8),
        positions=molecule_positions,
        cell=np.where(pbc[:, None], cell, 0.0),
        pbc=pbc,
        bonds=np.stack([i[bonded], j[bonded]], axis=1).astype(np.uint16),
        shifts=np.clip(shifts[bonded], -127, 127).astype(np.int8),
        density_g_cm3=(
            float(atomic_masses[numbers].sum()) / volume * GRAMS_PER_CM3
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
    """Return the number of bonded groups, the group (n,) of every atom, and new positions (n, 3).

    The first atom of a group keeps its position. Every other atom is one bond vector from an atom
    of its group that was placed before.
    """
    neighbours: list[list[tuple[int, float, float, float]]] = [[] for _ in positions]
    for first, second, (x, y, z) in zip(i.tolist(), j.tolist(), vectors.tolist(), strict=True):
        neighbours[first].append((second, x, y, z))
        neighbours[second].append((first, -x, -y, -z))
    new_positions: list[list[float]] = positions.tolist()
    group = [-1] * len(new_positions)
    count = 0
    for start in range(len(new_positions)):
        if group[start] >= 0:
            continue
        group[start] = count
        members = [start]
        for atom in members:
            origin = new_positions[atom]
            for other, x, y, z in neighbours[atom]:
                if group[other] < 0:
                    group[other] = count
                    new_positions[other] = [origin[0] + x, origin[1] + y, origin[2] + z]
                    members.append(other)
        count += 1
    return count, np.array(group, dtype=np.intp), np.array(new_positions, dtype=np.float64)


def _shifts(
    positions: Floats, i: Indices, j: Indices, vectors: Floats, full: Floats
) -> NDArray[np.int64]:
    """Return the cells (pair, 3) between the vector of each pair and the positions of its atoms."""
    return np.rint((vectors - (positions[j] - positions[i])) @ np.linalg.inv(full)).astype(np.int64)


def _into_cell(
    positions: Floats, group: Indices, full: Floats, periodic: NDArray[np.bool_]
) -> Floats:
    """Return positions of groups shifted by whole cells, so that every centre is in the cell."""
    fractional = positions @ np.linalg.inv(full)
    size = np.maximum(np.bincount(group), 1)
    centre = np.stack(
        [np.bincount(group, weights=fractional[:, k]) / size for k in range(3)], axis=1
    )
    cells = np.where(periodic, np.floor(centre + 1e-6), 0.0)
    return np.asarray(positions - cells[group] @ full, dtype=np.float64)


def _shortest(
    i: Indices, j: Indices, distances: Floats, mask: NDArray[np.bool_]
) -> tuple[float, tuple[int, int]]:
    rows = np.flatnonzero(mask)
    if not rows.size:
        return float("nan"), (0, 0)
    best = int(rows[np.argmin(distances[rows])])
    return float(distances[best]), (int(i[best]), int(j[best]))
