"""Find near-copies: displaced or strained copies, supercells and close polymorphs of a structure.

Two structures are near-copies if they have the same reduced formula and, on average, the same
distances from each element's atoms to their nearest atoms. The distances do not depend on the cell,
the orientation or the order of the atoms, and change little when atoms are displaced. References:
Widdowson et al., MATCH Commun. Math. Comput. Chem. 87, 529 (2022); Widdowson and Kurlin, NeurIPS
35, 24625 (2022).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.structures.formula import reduced_formula
from bandgap.structures.records import Records, StructureRecord
from bandgap.structures.same_crystals import N_NEAREST, TOLERANCE_ANGSTROM, neighbour_distances

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Largest mean difference of the distances. A displacement of all atoms by 0.1 A (standard deviation
# of every coordinate) gives 0.07 A, 0.05 A gives 0.04 A, and a strain of 1 % gives 0.03 A.
NEAR_ANGSTROM = 0.06
N_QUANTILES = 8  # of the distances over the atoms of an element
_LIMIT = NEAR_ANGSTROM + 1e-12  # with the rounding of a sum
_N_FIRST = 4  # structures that are compared before all within the limit
_BLOCK_ROWS = 128  # structures that are compared with all others at a time
MOST_COMPARED = 3_000  # structures of a whole data set: 1 to 5 ms each

ARRAY_NAMES = ("formulas", "ends", "values")  # of the stored arrays
LARGEST_STORED = 6e4  # Angstrom; float16 ends at 65,504
_ROUNDING = 2.0**-11  # of float16, relative


class NearCopies:
    """The structures of a data set in the form in which near-copies are looked for.

    Distances are computed when they are first needed, and only for structures that share their
    formula with another one. Refused structures have no near-copies. `n_nearest` is the number of
    atoms to which distances are computed; near-copies are told by the first `N_NEAREST`.
    """

    def __init__(self, records: Records, *, n_nearest: int = N_NEAREST) -> None:
        self.records = records
        self.n_nearest = n_nearest
        rows_by_formula = _rows_by_formula(records)
        self.n_formulas = len(rows_by_formula)
        self._rows_by_formula = {
            formula: rows for formula, rows in rows_by_formula.items() if len(rows) > 1
        }

    @property
    def n_comparable(self) -> int:
        """Number of structures that share their formula with another one."""
        return sum(map(len, self._rows_by_formula.values()))

    def has_near_copy(self, rows: Sequence[int], of: Sequence[int]) -> NDArray[np.bool_]:
        """Return which structures `rows` (k,) have a near-copy among the other ones of `of`."""
        place = {int(row): k for k, row in enumerate(rows)}
        reference = {int(row) for row in of}
        result = np.zeros(len(place), dtype=bool)
        for formula_rows in self._rows_by_formula.values():
            tested = [row for row in formula_rows if row in place]
            compared = [row for row in formula_rows if row in reference]
            if tested and compared:
                result[[place[row] for row in tested]] = _is_near_any(
                    self._first_distances(tested),
                    self._first_distances(compared),
                    rows=np.array(tested),
                    compared_rows=np.array(compared),
                )
        return result

    def distances(self) -> Iterator[Floats]:
        """Yield the distances of every structure that was read."""
        for row, record in enumerate(self.records):
            if record.atoms is not None:
                computed = self._distances.get(row)
                yield self._distances_of(record) if computed is None else computed

    @cached_property
    def _distances(self) -> dict[int, Floats]:
        comparable = {row for rows in self._rows_by_formula.values() for row in rows}
        return {
            row: self._distances_of(record)
            for row, record in enumerate(self.records)
            if row in comparable
        }

    def _distances_of(self, record: StructureRecord) -> Floats:
        return neighbour_distances(record, n_quantiles=N_QUANTILES, n_nearest=self.n_nearest)

    def _first_distances(self, rows: Sequence[int]) -> Floats:
        """Return the distances (k, d) of rows to their first `N_NEAREST` atoms."""
        stacked = np.array([self._distances[row] for row in rows])
        by_atom = stacked.reshape(len(rows), -1, self.n_nearest, N_QUANTILES)
        return by_atom[:, :, :N_NEAREST].reshape(len(rows), -1)


@dataclass(frozen=True, eq=False)
class StoredDistances:
    """Distances between the atoms of structures, by which near-copies of them are found.

    Parameters
    ----------
    formulas
        Key of the reduced formula of every structure (structure,).
    ends
        End of every structure's distances in `values` (structure,).
    values
        The distances of all structures in Angstrom, rounded to about 0.002 A.
    n_nearest
        Number of nearest atoms to which they are.
    """

    formulas: NDArray[np.uint64]
    ends: NDArray[np.int64]
    values: NDArray[np.float16]
    n_nearest: int = N_NEAREST

    @classmethod
    def of(cls, copies: NearCopies) -> "StoredDistances":
        """Return the distances of all structures that were read, 1 to 5 ms each if not computed."""
        keys = [formula_key(record) for record in copies.records if record.atoms is not None]
        distances = [
            np.minimum(values, LARGEST_STORED).astype(np.float16) for values in copies.distances()
        ]
        return cls(
            np.array(keys, dtype=np.uint64),
            np.cumsum([len(values) for values in distances], dtype=np.int64),
            np.concatenate([np.empty(0, np.float16), *distances]),
            copies.n_nearest,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, to store them."""
        return {name: getattr(self, name) for name in ARRAY_NAMES}

    def n_near_copies(self, records: Sequence[StructureRecord]) -> int:
        """Return how many of the records have a near-copy among these structures."""
        return sum(
            bool((differences.mean(axis=1) <= NEAR_ANGSTROM).any())
            for differences, _, _ in map(self._compared, records)
        )

    def copied(self, records: Sequence[StructureRecord]) -> Ints:
        """Return the number (n,) of the first structure that each record is, -1 for none."""
        numbers = np.full(len(records), -1)
        for i, (differences, rows, rounding) in enumerate(map(self._compared, records)):
            same = np.flatnonzero((differences <= TOLERANCE_ANGSTROM + rounding).all(axis=1))
            if same.size:
                numbers[i] = rows[same[0]]
        return numbers

    def _compared(self, record: StructureRecord) -> tuple[Floats, list[int], Floats]:
        """Return the differences (k, m) of distances from structures with the record's formula.

        The numbers of these k structures follow, and the largest rounding (m,) of what is stored.
        """
        rows = self._rows_by_formula.get(formula_key(record), []) if record.atoms else []
        if not rows:
            return np.empty((0, 1)), rows, np.empty(1)
        distances = neighbour_distances(record, n_quantiles=N_QUANTILES, n_nearest=self.n_nearest)
        places = self.ends[rows, None] - distances.size + np.arange(distances.size)
        stored = self.values.take(places, mode="clip").astype(np.float64)
        return np.abs(stored - distances), rows, _ROUNDING * distances

    @cached_property
    def _rows_by_formula(self) -> dict[int, list[int]]:
        rows: dict[int, list[int]] = defaultdict(list)
        for row, key in enumerate(self.formulas.tolist()):
            rows[key].append(row)
        return rows


def formula_key(record: StructureRecord) -> int:
    """Return 64 bits of a hash of the reduced formula and of whether the structure is periodic."""
    assert record.atoms is not None
    text = f"{reduced_formula(record.atoms.symbols)} {record.periodic}"
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


def has_near_copy(
    records: Sequence[StructureRecord], of: Sequence[StructureRecord]
) -> NDArray[np.bool_]:
    """Return which records (k,) have a near-copy among other records."""
    rows = np.arange(len(records) + len(of))
    copies = NearCopies([*records, *of])
    return copies.has_near_copy(rows[: len(records)].tolist(), rows[len(records) :].tolist())


def near_copy_counts(records: Records) -> dict[str, int]:
    """Return the number of structures with a near-copy in the same data set, and of formulas.

    The number of near-copies is missing if more than `MOST_COMPARED` structures share a formula:
    the distances of a structure take milliseconds.
    """
    copies = NearCopies(records)
    counts = {"formulas": copies.n_formulas}
    if copies.n_comparable <= MOST_COMPARED:
        rows = range(len(records))
        counts["near_copies"] = int(copies.has_near_copy(rows, rows).sum())
    return counts


def _rows_by_formula(records: Records) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = defaultdict(list)
    for row, record in enumerate(records):
        if record.atoms is not None:
            rows[formula_key(record)].append(row)
    return rows


def _is_near_any(
    vectors: Floats,
    compared: Floats,
    *,
    rows: NDArray[np.int_],
    compared_rows: NDArray[np.int_],
) -> NDArray[np.bool_]:
    """Return which of n vectors (n, d) are near-copies of one of m vectors (m, d) of other rows.

    The means of parts of two vectors differ on average at most as much as the vectors. Only the
    pairs whose means are near are compared number by number, in blocks that need little memory.
    """
    means = _means_of_parts(vectors, N_QUANTILES)
    compared_means = _means_of_parts(compared, N_QUANTILES)
    n_first = min(_N_FIRST, len(compared))
    is_near = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = np.arange(start, min(start + _BLOCK_ROWS, len(rows)))
        differences = _mean_differences(means[block], compared_means)
        differences[np.equal.outer(rows[block], compared_rows)] = np.inf
        # A structure with near-copies mostly has one among the first by these means.
        first = np.argpartition(differences, n_first - 1, axis=1)[:, :n_first]
        for nearest in first.T:
            difference = np.abs(vectors[block] - compared[nearest]).mean(axis=1)
            is_other = compared_rows[nearest] != rows[block]
            is_near[block] |= is_other & (difference <= _LIMIT)
        is_candidate = differences <= _LIMIT
        open_rows = np.flatnonzero(is_candidate.any(axis=1) & ~is_near[block])
        columns = np.flatnonzero(is_candidate[open_rows].any(axis=0))
        exact = _mean_differences(vectors[block[open_rows]], compared[columns])
        pairs = is_candidate[np.ix_(open_rows, columns)] & (exact <= _LIMIT)
        is_near[block[open_rows]] = pairs.any(axis=1)
    return is_near


def _mean_differences(first: Floats, second: Floats) -> Floats:
    """Return the mean absolute differences (n, m) of n and m vectors."""
    result: Floats = cdist(first, second, metric="cityblock") / first.shape[1]
    return result


def _means_of_parts(vectors: Floats, size: int) -> Floats:
    """Return the means (n, part) of parts of vectors (n, d) that have `size` numbers."""
    means: Floats = vectors.reshape(len(vectors), -1, size).mean(axis=2)
    return means
