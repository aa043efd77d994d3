"""Test rows that a source network does not use in its training, and its error on them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.feature_arrays import take_rows
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.networks.row_blocks import IN_MEMORY_BYTES
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import source_predictions_eV
from bandgap.structures import StructureRecord

Floats = NDArray[np.float64]

# Stream of the seed; streams 1 and 2 are those of the extras.
_STREAM = 3
_ROWS_PER_CHUNK = 1024


def rows_to_learn(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    descriptor: DescriptorConfig,
    split: tuple[int, int] | None,
    *,
    seed: int,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> tuple[Table, Table | None]:
    """Return the rows on which a network is trained, and the test rows of its split."""
    table = learnable(
        records,
        gaps_eV,
        descriptor=descriptor,
        mapped_from_bytes=IN_MEMORY_BYTES,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    return without_test_rows(table, split, seed=seed)


def without_test_rows(
    table: Table, split: tuple[int, int] | None, *, seed: int
) -> tuple[Table, Table | None]:
    """Return the rows to train on and to stop by, in their order, and the test rows.

    Without a split these are all rows and None. A table whose features are mapped is overwritten.

    Parameters
    ----------
    table
        Labelled structures.
    split
        Numbers of rows to train on and to stop by.
    seed
        Seed of the split.

    Raises
    ------
    InputError
        If there are fewer rows.
    """
    if split is None:
        return table, None
    n = len(table)
    n_used = sum(split)
    if n_used > n:
        raise InputError(
            f"A split into {split[0]:,} structures to train on and {split[1]:,} to stop by needs "
            f"{n_used:,}; there are {n:,} to learn from. Give smaller numbers."
        )
    order = np.random.default_rng([seed, _STREAM]).permutation(n)
    used_rows = np.sort(order[:n_used])
    test_rows = np.sort(order[n_used:])
    test = table.rows(test_rows) if test_rows.size else None
    records = [table.records[i] for i in used_rows]
    features = take_rows(table.features, used_rows)
    return Table(records, features, table.gaps_eV[used_rows], table.left_out), test


def predicted_eV(source: SourceModel, features: NDArray[np.floating[Any]]) -> Floats:
    """Return the gaps (n,) in eV that the point estimate predicts from raw features (n, p)."""
    starts = range(0, len(features), _ROWS_PER_CHUNK)
    chunks = [features[start : start + _ROWS_PER_CHUNK] for start in starts]
    return np.concatenate([source_predictions_eV(source, chunk) for chunk in chunks])
