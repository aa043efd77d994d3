"""Near-copies of target structures in the data of a source, by distances that the source stores.

The definition of a near-copy is that of `bandgap.structures.near_copies`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.sources.domain import shipped_records
from bandgap.sources.overlap import load_arrays
from bandgap.structures import StructureRecord
from bandgap.structures.formula import reduced_formula
from bandgap.structures.near_copies import N_QUANTILES, NEAR_ANGSTROM, has_near_copy
from bandgap.structures.same_crystals import neighbour_distances

NAMES = ("formulas", "ends", "values")  # of the stored arrays
LARGEST_STORED = 6e4  # Angstrom; float16 ends at 65,504


@dataclass(frozen=True, eq=False)
class SourceDistances:
    """Distances between the atoms of the structures of a source, by which near-copies are found.

    Parameters
    ----------
    formulas
        Key of the reduced formula of every structure (structure,).
    ends
        End of every structure's distances in `values` (structure,).
    values
        The distances of all structures in Angstrom, rounded to about 0.002 A.
    """

    formulas: NDArray[np.uint64]
    ends: NDArray[np.int64]
    values: NDArray[np.float16]

    @classmethod
    def of(cls, records: Sequence[StructureRecord]) -> "SourceDistances":
        """Return the distances of all structures that were read, 1 to 5 ms each."""
        readable = [record for record in records if record.atoms is not None]
        distances = [
            np.minimum(neighbour_distances(record, n_quantiles=N_QUANTILES), LARGEST_STORED).astype(
                np.float16
            )
            for record in readable
        ]
        return cls(
            np.array([formula_key(record) for record in readable], dtype=np.uint64),
            np.cumsum([len(values) for values in distances], dtype=np.int64),
            np.concatenate([np.empty(0, np.float16), *distances]),
        )

    def n_near_copies(self, records: Sequence[StructureRecord]) -> int:
        """Return how many of the records have a near-copy among these structures."""
        rows_by_formula: dict[int, list[int]] = defaultdict(list)
        for row, key in enumerate(self.formulas.tolist()):
            rows_by_formula[key].append(row)
        return sum(
            self._has_near_copy(record, rows)
            for record in records
            if record.atoms is not None and (rows := rows_by_formula.get(formula_key(record)))
        )

    def _has_near_copy(self, record: StructureRecord, rows: Sequence[int]) -> bool:
        values = neighbour_distances(record, n_quantiles=N_QUANTILES)
        starts = [self.ends[row] - values.size for row in rows]
        stored = np.array([self.values[start : start + values.size] for start in starts])
        differences = np.abs(stored.astype(np.float64) - values).mean(axis=1)
        return bool(differences.min() <= NEAR_ANGSTROM)


def distances_of(records: Sequence[StructureRecord]) -> dict[str, NDArray[Any]]:
    """Return the arrays of `SourceDistances` by name, to store them with the keys of a source."""
    distances = SourceDistances.of(records)
    return {name: getattr(distances, name) for name in NAMES}


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
        stored = SourceDistances(
            arrays["formulas"].view(np.uint64), arrays["ends"], arrays["values"]
        )
        return stored.n_near_copies(records)
    source_records = shipped_records(folder)
    if source_records is None:
        return None
    readable = [record for record in records if record.atoms is not None]
    return int(has_near_copy(readable, source_records).sum())
