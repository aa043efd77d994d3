"""Labelled structures that a model can learn from: records, raw features and gaps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.feature_arrays import chosen_rows
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.structures import StructureRecord
from bandgap.structures.elements import ELEMENTS

NO_BASELINE = "has no value in the baseline's column."


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Structures of one origin with their gaps (n,) in eV, NaN where there is none.

    `baseline_eV` (n,) is a gap of each structure at a cheaper level of theory, NaN where there is none; None where the
    set has no baseline.
    """

    records: Sequence[StructureRecord]
    gaps_eV: NDArray[np.floating[Any]]
    level_of_theory: str = ""
    licence: str = ""
    baseline_eV: NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True)
class LeftOut:
    """A labelled structure that the descriptor does not take: its elements that this lacks, or another reason."""

    id: str
    elements: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled structures that can be learned from: records, raw features (n, p), gaps (n,) in eV; who was left out.

    `baseline_eV` (n,) is a value near the gap that every structure has beside its features, None where there is none.
    """

    records: list[StructureRecord]
    features: NDArray[np.float32]
    gaps_eV: NDArray[np.float64]
    left_out: list[LeftOut] = field(default_factory=list)
    baseline_eV: NDArray[np.float64] | None = None

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

    @property
    def inputs(self) -> NDArray[np.floating[Any]]:
        """What a posterior is given of every structure: its features, and behind them the baseline."""
        return with_baseline_column(self.features, self.baseline_eV)

    def content(self) -> str:
        """Return a fingerprint of the structures and their gaps."""
        return fingerprint([[r.id, r.content, float(g)] for r, g in zip(self.records, self.gaps_eV, strict=True)])

    def facts(self, *, n_given: int, of_source: bool = True) -> dict[str, Any]:
        """Return what a run's manifest says of its data, of `n_given` structures, and of those that were left out.

        `of_source` says whether the descriptor that left them out is that of a source model.
        """
        data: dict[str, Any] = {"fingerprint": self.content(), "n_labelled": len(self), "n_given": n_given}
        data |= {} if of_source else {"of_source": False}
        return {"data": data, "left_out": [to_dict(structure) for structure in self.left_out]}

    def rows(self, rows: NDArray[np.int64]) -> "Table":
        """Return the table of these rows, in their order."""
        baseline = None if self.baseline_eV is None else self.baseline_eV[rows]
        return Table([self.records[i] for i in rows], self.features[rows], self.gaps_eV[rows], baseline_eV=baseline)


def with_baseline_column(
    features: NDArray[np.floating[Any]], baseline_eV: NDArray[np.float64] | None
) -> NDArray[np.floating[Any]]:
    """Return features (n, p) with a baseline (n,) as a last column, or as they are where there is none."""
    return features if baseline_eV is None else np.column_stack([features, baseline_eV])


def learnable(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: MBTRConfig,
    of_source: bool = True,
    baseline_eV: NDArray[np.floating[Any]] | None = None,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    mapped_from_bytes: int | None = None,
    progress: Progress = no_progress,
) -> Table:
    """Return the rows that can be learned from: not refused, with a gap, and inside the descriptor's species.

    Features of `mapped_from_bytes` or more, where given, stand in a file that is mapped into memory.
    With `baseline_eV` (n,), NaN where a structure has none, such structures are left out too.
    Raises InputError when the lengths differ, and when nothing is left (with the first reason, and what to do about
    elements that the descriptor, which is that of a source or the user's own choice, lacks).
    """
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    if len(records) != gaps.shape[0]:
        raise InputError(f"{len(records)} structures but {gaps.shape[0]} gaps: one gap (or NaN) for each is expected.")
    usable = [i for i, record in enumerate(records) if record.status != "refused" and np.isfinite(gaps[i])]
    kept = [records[i] for i in usable]
    described = featurize(
        kept, descriptor, cache=cache, n_jobs=n_jobs, mapped_from_bytes=mapped_from_bytes, progress=progress
    )
    known = None if baseline_eV is None else np.asarray(baseline_eV, dtype=np.float64)[usable]
    texts = [None if p is None else p.text for p in described.problems]
    if known is not None:
        texts = [t or (None if np.isfinite(b) else NO_BASELINE) for t, b in zip(texts, known, strict=True)]
    rows = [k for k, text in enumerate(texts) if text is None]
    if not rows:
        found = [text for text in texts if text is not None] or [r.problem for r in records if r.problem]
        reason = found[0] if found else "no structure has a gap"
        raise InputError(
            f"None of {len(records)} structures can be learned from: {reason}{_remedy(kept, descriptor, of_source)}"
        )
    left_out = [_left_out(kept[k], text, descriptor) for k, text in enumerate(texts) if text is not None]
    baseline = None if known is None else known[rows]
    features = chosen_rows(described.features, np.array(rows, dtype=np.int64))
    return Table([kept[k] for k in rows], features, gaps[usable][rows], left_out, baseline)


def _left_out(record: StructureRecord, problem: str, descriptor: MBTRConfig) -> LeftOut:
    lacking = tuple(sorted(elements_of(record) - set(descriptor.elements)))
    return LeftOut(record.id, lacking) if lacking else LeftOut(record.id, problem=problem)


def _remedy(records: Sequence[StructureRecord], descriptor: MBTRConfig, of_source: bool) -> str:
    """Say how the elements of these structures can be described; nothing where the descriptor has them all."""
    present = set().union(*(elements_of(record) for record in records)) & set(ELEMENTS)
    if present <= set(descriptor.elements):
        return ""
    if not of_source:
        return " Leave out `--preset` and `--species`: the descriptor is then made for the elements of the structures."
    species = " ".join(sorted(present, key=ELEMENTS.index))
    return (
        " The descriptor is that of the source model. Train one for these elements, on other structures that hold them "
        f'if there are any: `bandgap train-source --structures PATH --labels CSV --species "{species}" --out SOURCE`, '
        "then `bandgap transfer --source SOURCE`; or on the page Source models from a data set of such structures with "
        'the descriptor "for the elements of these structures". Or do without a source '
        '(--source none; on the page Train "No source model"), by a method such as gaussian_process.'
    )


def elements_of(record: StructureRecord) -> set[str]:
    """Return the element symbols of a structure; empty when it was refused."""
    return set() if record.atoms is None else {str(symbol) for symbol in record.atoms.symbols}
