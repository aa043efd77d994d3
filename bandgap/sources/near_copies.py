"""Near-copies of structures in the data of a source, by the distances that it stores."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bandgap.sources.overlap import load_arrays
from bandgap.sources.shipped_structures import shipped_records
from bandgap.structures import StructureRecord
from bandgap.structures.near_copies import ARRAY_NAMES, StoredDistances, has_near_copy
from bandgap.structures.same_crystals import N_NEAREST


def has_distances(folder: Path) -> bool:
    """Return whether a source stores the distances. Raises ArtifactError if they are damaged."""
    arrays = load_arrays(folder)
    return arrays is not None and set(ARRAY_NAMES) <= arrays.keys()


def near_copies_in_source(folder: Path, records: Sequence[StructureRecord]) -> int | None:
    """Return how many structures have a near-copy in the data of a source, or are in them.

    The structures of the shipped sources are compared themselves. The result is None for a source
    that stores no distances. Raises ArtifactError if they are damaged.
    """
    arrays = load_arrays(folder)
    if arrays is not None and set(ARRAY_NAMES) <= arrays.keys():
        formulas = arrays["formulas"].view(np.uint64)  # stored as signed
        n_nearest = int(arrays.get("n_nearest", N_NEAREST))
        stored = StoredDistances(formulas, arrays["ends"], arrays["values"], n_nearest)
        return stored.n_near_copies(records)
    readable = [record for record in records if record.atoms is not None]
    source_records = shipped_records(folder, periodic={record.periodic for record in readable})
    if source_records is None:
        return None
    return int(has_near_copy(readable, source_records).sum())
