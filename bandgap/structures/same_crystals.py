"""Find crystals and molecules that occur several times under different ids.

Two structures are the same if the sorted distances of every element's atoms to their nearest atoms
agree. These distances do not depend on the order of the atoms, the origin, the orientation, the
choice of the cell or the digits of the file. Mirror images are the same structure. References:
Widdowson et al., MATCH Commun. Math. Comput. Chem. 87, 529 (2022), average minimum distances;
Widdowson and Kurlin, NeurIPS 35, 24625 (2022), pointwise distance distributions.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.foundation.errors import listed
from bandgap.structures.formula import reduced_formula
from bandgap.structures.neighbours import cell_volume, complete_cell, with_images
from bandgap.structures.records import Problem, Records, StructureRecord

Floats = NDArray[np.float64]

TOLERANCE_ANGSTROM = 3e-3  # of distances; files give coordinates to 0.001 A or better
SIZE_TOLERANCE = 5e-3  # relative, of the volume per atom or the radius of gyration
N_NEAREST = 12
N_QUANTILES = 32
SHOWN = 3


def crystal_groups(records: Records) -> NDArray[np.int64]:
    """Return the index of the first record (n,) that is the same structure as each record.

    A structure without an earlier copy, and a refused one, has its own index. Distances are
    computed only for structures that share formula and size with another one.
    """
    first_of_content: dict[str, int] = {}
    first = np.arange(len(records), dtype=np.int64)
    similar: dict[tuple[str, bool], list[tuple[float, int]]] = defaultdict(list)
    for i, record in enumerate(records):
        if record.atoms is None:
            continue
        first[i] = first_of_content.setdefault(record.content, i)
        if first[i] == i:
            key = (reduced_formula(record.atoms.symbols), record.periodic)
            similar[key].append((_size(record), i))
    candidates = [rows for sizes in similar.values() for rows in _of_similar_size(sizes)]
    if candidates:
        candidate_rows = {i for rows in candidates for i in rows}
        distances = {
            i: neighbour_distances(record)
            for i, record in enumerate(records)
            if i in candidate_rows
        }
        for rows in candidates:
            for i, j in zip(rows, _groups([distances[i] for i in rows]), strict=True):
                first[i] = rows[j]
    return first[first]


def with_copies_named(
    records: Iterable[StructureRecord], groups: NDArray[np.int64]
) -> Iterable[StructureRecord]:
    """Yield the records with a warning on every one that repeats an earlier one."""
    id_of_first: dict[int, str] = {}
    copied = set(groups[groups != np.arange(groups.size)].tolist())
    for i, (record, first) in enumerate(zip(records, groups.tolist(), strict=True)):
        if i in copied:
            id_of_first[i] = record.id
        if first == i:
            yield record
            continue
        text = f"the same structure as {id_of_first[first]}, under another id"
        yield dataclasses.replace(record, problems=(*record.problems, Problem("warning", text)))


def copies_sentence(ids: Sequence[str], groups: NDArray[np.int64]) -> str:
    """Return a sentence on structures that occur several times, or ""."""
    members: dict[int, list[str]] = defaultdict(list)
    for id, first in zip(ids, groups.tolist(), strict=True):
        members[first].append(id)
    repeated = [names for names in members.values() if len(names) > 1]
    if not repeated:
        return ""
    n = sum(map(len, repeated))
    examples = listed([" = ".join(names[:SHOWN]) for names in repeated], SHOWN, separator="; ")
    only = "one and the same" if len(repeated) == 1 else f"only {len(repeated):,} different ones"
    under = "under several ids" if len(repeated) == 1 else "each under several ids"
    return (
        f"{n:,} structures are {only}, {under}:"
        f" {examples}. They stay on one side of every split; delete all but one of each if"
        " they are no separate measurements."
    )


def _size(record: StructureRecord) -> float:
    """Return the volume per atom in cubic Angstrom, or the radius of gyration of a molecule."""
    atoms = record.atoms
    assert atoms is not None
    if atoms.pbc.all():
        return abs(float(np.linalg.det(atoms.cell.array))) / len(atoms)
    if atoms.pbc.any():
        return 1.0  # the size of a slab's or chain's cell is arbitrary
    return float(np.sqrt(((atoms.positions - atoms.positions.mean(axis=0)) ** 2).sum(1).mean()))


def _of_similar_size(sizes: list[tuple[float, int]]) -> list[list[int]]:
    """Return the rows whose sorted sizes follow each other closely, where there are several."""
    runs: list[list[int]] = []
    last = -math.inf
    for size, row in sorted(sizes):
        if size - last > SIZE_TOLERANCE * max(size, 1.0):
            runs.append([])
        runs[-1].append(row)
        last = size
    return [sorted(rows) for rows in runs if len(rows) > 1]


def _groups(distances: list[Floats]) -> list[int]:
    """Return the index of the first vector of each vector's group.

    Vectors are in one group if they are equal within the tolerance, or linked by such ones.
    """
    vectors = np.array(distances)
    n = len(vectors)
    # Means differ at most as much as the vectors, and are fewer numbers.
    means = vectors.reshape(n, -1, N_QUANTILES).mean(axis=2)
    first = np.full(n, -1, dtype=np.int64)
    without_group = np.arange(n)
    for i in range(n):
        if first[i] >= 0:
            continue
        first[i] = i
        linked = [i]
        # Every vector joins a group once, so that many equal ones need no list of all pairs.
        while linked:
            k = linked.pop()
            without_group = without_group[first[without_group] < 0]
            if not len(without_group):
                break
            differences = np.abs(means[without_group] - means[k]).max(axis=1)
            near = without_group[differences <= TOLERANCE_ANGSTROM]
            near = near[np.abs(vectors[near] - vectors[k]).max(axis=1) <= TOLERANCE_ANGSTROM]
            first[near] = i
            linked += near.tolist()
    return first.tolist()


def neighbour_distances(
    record: StructureRecord, *, n_quantiles: int = N_QUANTILES, n_nearest: int = N_NEAREST
) -> Floats:
    """Return quantiles over the atoms of each element of the distances to the nearest atoms.

    The quantiles are values of the sorted distances, so that a supercell has the same ones.
    """
    atoms = record.atoms
    assert atoms is not None
    nearest = _nearest(atoms.positions, cell=atoms.cell.array, pbc=atoms.pbc, n_nearest=n_nearest)
    numbers = atoms.numbers
    shares = (np.arange(n_quantiles) + 0.5) / n_quantiles
    columns = []
    for element in np.unique(numbers):
        rows = np.sort(nearest[numbers == element], axis=0)
        columns.append(rows[(shares * len(rows)).astype(int)].T)  # (neighbour, quantile)
    return np.concatenate(columns).ravel()


def _nearest(positions: Floats, *, cell: Floats, pbc: NDArray[np.bool_], n_nearest: int) -> Floats:
    """Return the sorted distances (atom, n_nearest) to the nearest atoms, 0 where there are none.

    Images of atoms are made in a growing range until all nearest atoms are inside it.
    """
    n = len(positions)
    if not pbc.any():
        n_found = min(n_nearest, n - 1)
        padded = np.zeros((n, n_nearest))
        if n_found:
            all_distances = np.asarray(cKDTree(positions).query(positions, k=n_found + 1)[0])
            padded[:, :n_found] = all_distances[:, 1:]
        return padded
    vectors = complete_cell(cell, pbc)
    radius = 1.3 * (3 * (n_nearest + 1) * cell_volume(vectors) / (4 * math.pi * n)) ** (1 / 3)
    while True:
        points, _, _ = with_images(positions, vectors, pbc, radius)
        if len(points) > n_nearest:
            nearest = np.asarray(cKDTree(points).query(points[:n], k=n_nearest + 1)[0])[:, 1:]
            if nearest.max() <= radius:
                return nearest
        radius *= 1.5
