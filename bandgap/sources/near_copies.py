"""Near-copies of structures in the data of a source or a run, by distances that it stores.

The definition of a near-copy is that of `bandgap.structures.near_copies`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.sources.domain import shipped_records
from bandgap.sources.overlap import load_arrays
from bandgap.structures import StructureRecord
from bandgap.structures.formula import reduced_formula
from bandgap.structures.near_copies import (
    N_QUANTILES,
    NEAR_ANGSTROM,
    NearCopies,
    has_near_copy,
)
from bandgap.structures.same_crystals import N_NEAREST, TOLERANCE_ANGSTROM, neighbour_distances

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NAMES = ("formulas", "ends", "values")  # of the stored arrays
LARGEST_STORED = 6e4  # Angstrom; float16 ends at 65,504
_ROUNDING = 2.0**-11  # of float16, relative


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
        return {name: getattr(self, name) for name in NAMES}

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


def has_distances(folder: Path) -> bool:
    """Return whether a source stores the distances. Raises ArtifactError if they are damaged."""
    arrays = load_arrays(folder)
    return arrays is not None and set(NAMES) <= arrays.keys()


def formula_key(record: StructureRecord) -> int:
    """Return 64 bits of a hash of the reduced formula and of whether the structure is periodic."""
    assert record.atoms is not None
    text = f"{reduced_formula(record.atoms.symbols)} {record.periodic}"
    return int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)


def near_copies_in_source(folder: Path, records: Sequence[StructureRecord]) -> int | None:
    """Return how many structures have a near-copy in the data of a source, or are in them.

    The structures of the shipped sources are compared themselves. The result is None for a source
    that stores no distances. Raises ArtifactError if they are damaged.
    """
    arrays = load_arrays(folder)
    if arrays is not None and set(NAMES) <= arrays.keys():
        formulas = arrays["formulas"].view(np.uint64)  # stored as signed
        n_nearest = int(arrays.get("n_nearest", N_NEAREST))
        stored = StoredDistances(formulas, arrays["ends"], arrays["values"], n_nearest)
        return stored.n_near_copies(records)
    readable = [record for record in records if record.atoms is not None]
    source_records = shipped_records(folder, periodic={record.periodic for record in readable})
    if source_records is None:
        return None
    return int(has_near_copy(readable, source_records).sum())
