"""Electron levels of the structures that a run learns from, holds back and is tested on, and of no others."""

from collections.abc import Sequence

import numpy as np

from bandgap.datasets.splits import Rows, Split
from bandgap.datasets.table import LeftOut, Table
from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress


def split_with_levels(
    table: Table,
    split: Split,
    descriptor: DescriptorConfig,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> tuple[Table, Split, list[LeftOut]]:
    """Describe the structures of a split again, with the electron levels of `descriptor`.

    Returns the table of these structures alone, their split in it, and the structures that have no levels, which are
    left out: of a split of `n` rows fewer may then be learned from. Raises InputError where none has levels.
    """
    rows = np.concatenate([split.train, split.held_back, split.test])
    chosen = table.rows(rows)
    described = featurize(chosen.records, descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    problems = [None if problem is None else problem.text for problem in described.problems]
    kept = np.array([k for k, text in enumerate(problems) if text is None], dtype=np.int64)
    left_out = [LeftOut(chosen.records[k].id, problem=text) for k, text in enumerate(problems) if text is not None]
    if not kept.size:
        raise InputError(f"None of {len(rows)} structures can be learned from: each {left_out[0].problem}")
    places = dict(zip(rows[kept].tolist(), range(kept.size), strict=True))
    baseline = None if chosen.baseline_eV is None else chosen.baseline_eV[kept]
    found = Table(
        [chosen.records[k] for k in kept],
        described.features[kept],
        chosen.gaps_eV[kept],
        baseline_eV=baseline,
    )
    parts = (split.train, split.test, split.held_back)
    train, test, held_back = (_places_of(part, places) for part in parts)
    return found, Split(train=train, test=test, held_back=held_back), left_out


def _places_of(rows: Rows, places: dict[int, int]) -> Rows:
    found: Sequence[int] = [places[row] for row in rows.tolist() if row in places]
    return np.array(found, dtype=np.int64)
