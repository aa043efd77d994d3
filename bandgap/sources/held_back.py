"""Rows that a source network never sees, by which its error is told: the thesis' split of OE62 and any other."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import MBTRConfig
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.feature_arrays import take_rows
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress
from bandgap.networks.row_blocks import IN_MEMORY_BYTES
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import source_predictions_eV
from bandgap.structures import StructureRecord

_STREAM = 3  # of the seed; 1 and 2 are those of the parts beyond the point estimate
_ROWS_PER_BLOCK = 1024


def rows_to_learn(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    descriptor: MBTRConfig,
    split: tuple[int, int] | None,
    *,
    seed: int,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> tuple[Table, Table | None]:
    """Return the rows that a network is trained on, and those that its split leaves to be tested by."""
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
    """Return the rows to train on and to stop by, in their order, and the rest; all rows and None without a split.

    `split` holds the numbers of both; the seed draws them. A table whose features are mapped is used up by it. Raises
    ConfigError where a number is not at least 1, and InputError where there are fewer rows.
    """
    if split is None:
        return table, None
    n, n_kept = len(table), sum(split)
    if min(split) < 1:
        raise ConfigError(
            f"split: {split[0]} rows to train on and {split[1]} to stop by. Accepted: at least 1 of each."
        )
    if n_kept > n:
        raise InputError(
            f"A split into {split[0]:,} structures to train on and {split[1]:,} to stop by needs {n_kept:,}; there are "
            f"{n:,} to learn from. Give smaller numbers."
        )
    order = np.random.default_rng([seed, _STREAM]).permutation(n)
    kept, rest = np.sort(order[:n_kept]), np.sort(order[n_kept:])
    test = table.rows(rest) if rest.size else None
    records = [table.records[i] for i in kept]
    return Table(
        records, take_rows(table.features, kept), table.gaps_eV[kept], table.left_out
    ), test


def test_rmse_eV(source: SourceModel, test: Table) -> float:
    """Return the root mean square error of the point estimate on these rows, in eV."""
    total = 0.0
    for start in range(0, len(test), _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        errors = source_predictions_eV(source, test.features[block]) - test.gaps_eV[block]
        total += float(np.sum(errors**2))
    return math.sqrt(total / len(test))
