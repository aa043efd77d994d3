"""Features of the structures in a split: training, held back and test."""

from dataclasses import replace

import numpy as np

from bandgap.datasets.splits import Split
from bandgap.datasets.table import LeftOut, Table
from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress


def described_split(
    table: Table,
    split: Split,
    descriptor: DescriptorConfig,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> tuple[Table, Split, list[LeftOut]]:
    """Compute the features of a split's structures, electron levels included.

    Structures that cannot be described, or have no levels, are left out, so that the training set
    may be smaller than requested.

    Returns
    -------
    table
        The structures of the split, with NaN as features of those that are left out.
    split
        The rows of the others in this table.
    left_out
        The structures that were left out.

    Raises
    ------
    InputError
        Where no structure can be described.
    """
    parts = (split.train, split.held_back, split.test)
    split_table = table.rows(np.concatenate(parts))
    described = featurize(
        split_table.records, descriptor, cache=cache, n_jobs=n_jobs, progress=progress
    )
    left_out = [
        LeftOut(record.id, problem=problem.text)
        for record, problem in zip(split_table.records, described.problems, strict=True)
        if problem is not None
    ]
    if len(left_out) == len(split_table):
        raise InputError(
            f"None of {len(left_out)} structures can be learned from: each {left_out[0].problem}"
        )
    is_described = np.array([problem is None for problem in described.problems])
    ends = np.cumsum([len(part) for part in parts])[:-1]
    train, held_back, test = (
        rows[is_described[rows]] for rows in np.split(np.arange(len(split_table)), ends)
    )
    new_table = replace(split_table, features=described.features)
    return new_table, Split(train=train, test=test, held_back=held_back), left_out
