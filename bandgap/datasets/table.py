"""Labelled structures that a model can learn from: records, raw features and gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.structures import StructureRecord


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled structures that can be learned from: records, raw features (n, p) and gaps (n,) in eV."""

    records: list[StructureRecord]
    features: NDArray[np.float32]
    gaps_eV: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.records)

    @property
    def ids(self) -> list[str]:
        """Ids in the order of the rows."""
        return [record.id for record in self.records]

    @property
    def elements(self) -> list[set[str]]:
        """Element symbols of every structure."""
        return [elements_of(record) for record in self.records]

    def content(self) -> str:
        """Return a fingerprint of the structures and their gaps."""
        return fingerprint([[r.id, r.content, float(g)] for r, g in zip(self.records, self.gaps_eV, strict=True)])

    def rows(self, rows: NDArray[np.int64]) -> "Table":
        """Return the table of these rows, in their order."""
        return Table([self.records[i] for i in rows], self.features[rows], self.gaps_eV[rows])


def learnable(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: MBTRConfig,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Table:
    """Return the rows that can be learned from: not refused, with a gap, and inside the descriptor's species.

    Raises InputError when the lengths differ, and when nothing is left (with the first reason).
    """
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    if len(records) != gaps.shape[0]:
        raise InputError(f"{len(records)} structures but {gaps.shape[0]} gaps: one gap (or NaN) for each is expected.")
    usable = [i for i, record in enumerate(records) if record.status != "refused" and np.isfinite(gaps[i])]
    kept = [records[i] for i in usable]
    described = featurize(kept, descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    rows = [k for k, problem in enumerate(described.problems) if problem is None]
    if not rows:
        found = [p.text for p in described.problems if p is not None] or [r.problem for r in records if r.problem]
        reason = found[0] if found else "no structure has a gap"
        raise InputError(f"None of {len(records)} structures can be learned from: {reason}")
    return Table([kept[k] for k in rows], described.features[rows], gaps[usable][rows])


def elements_of(record: StructureRecord) -> set[str]:
    """Return the element symbols of a structure; empty when it was refused."""
    return set() if record.atoms is None else {str(symbol) for symbol in record.atoms.symbols}
