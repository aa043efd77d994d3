"""Features of the structures in a split: training, held back and test."""

from collections.abc import Sequence

import numpy as np

from bandgap.datasets.splits import Rows, Split
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
        The structures of the split.
    split
        Their rows in this table.
    left_out
        The structures that were left out.

    Raises
    ------
    InputError
        Where no structure can be described.
    """
    rows = np.concatenate([split.train, split.held_back, split.test])
    split_table = table.rows(rows)
    described = featurize(
        split_table.records, descriptor, cache=cache, n_jobs=n_jobs, progress=progress
    )
    problems = [None if problem is None else problem.text for problem in described.problems]
    kept_rows = np.array([k for k, text in enumerate(problems) if text is None], dtype=np.int64)
    left_out = [
        LeftOut(split_table.records[k].id, problem=text)
        for k, text in enumerate(problems)
        if text is not None
    ]
    if not kept_rows.size:
        raise InputError(
            f"None of {len(rows)} structures can be learned from: each {left_out[0].problem}"
        )
    new_rows = dict(zip(rows[kept_rows].tolist(), range(kept_rows.size), strict=True))
    baseline = None if split_table.baseline_eV is None else split_table.baseline_eV[kept_rows]
    new_table = Table(
        [split_table.records[k] for k in kept_rows],
        described.features[kept_rows],
        split_table.gaps_eV[kept_rows],
        baseline_eV=baseline,
    )
    new_split = Split(
        train=_renumbered(split.train, new_rows),
        test=_renumbered(split.test, new_rows),
        held_back=_renumbered(split.held_back, new_rows),
    )
    return new_table, new_split, left_out


def _renumbered(rows: Rows, new_rows: dict[int, int]) -> Rows:
    result: Sequence[int] = [new_rows[row] for row in rows.tolist() if row in new_rows]
    return np.array(result, dtype=np.int64)
