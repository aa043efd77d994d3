"""Labelled structures for training: records, raw features and gaps."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.config import fingerprint, to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.structures import StructureRecord
from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    # Imported when a split needs it; a prediction does not.
    from bandgap.structures.near_copies import NearCopies

NO_BASELINE = "has no value in the baseline's column."


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Structures of one origin with their gaps.

    Parameters
    ----------
    records
        Structures.
    gaps_eV
        Gaps (n,) in eV, NaN for none.
    level_of_theory
        Method of the gaps.
    licence
        Licence of the data.
    baseline_eV
        Gaps (n,) in eV at a cheaper level of theory, NaN for none; None without a baseline.
    """

    records: Sequence[StructureRecord]
    gaps_eV: NDArray[np.floating[Any]]
    level_of_theory: str = ""
    licence: str = ""
    baseline_eV: NDArray[np.floating[Any]] | None = None


@dataclass(frozen=True)
class LeftOut:
    """A labelled structure that cannot be described: by the missing elements, or another reason."""

    id: str
    elements: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled structures for training.

    Parameters
    ----------
    records
        Structures.
    features
        Raw features (n, p) of the descriptor.
    gaps_eV
        Gaps (n,) in eV.
    left_out
        Labelled structures that were left out, with the reason.
    baseline_eV
        A value (n,) in eV near the gap that is known in addition to the features, or None.
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

    @cached_property
    def crystals(self) -> list[int]:
        """Number of the crystal of every structure: the row of its first occurrence."""
        from bandgap.structures.same_crystals import crystal_groups

        return [int(row) for row in crystal_groups(self.records)]

    @cached_property
    def near_copies(self) -> "NearCopies":
        """The structures in the form in which near-copies are looked for."""
        from bandgap.structures.near_copies import NearCopies

        return NearCopies(self.records)

    @property
    def inputs(self) -> NDArray[np.floating[Any]]:
        """Inputs of a posterior: the features, with the baseline as last column if there is one."""
        return with_baseline_column(self.features, self.baseline_eV)

    def content(self) -> str:
        """Return a fingerprint of the structures and their gaps."""
        return fingerprint(
            [[r.id, r.content, float(g)] for r, g in zip(self.records, self.gaps_eV, strict=True)]
        )

    def facts(self, *, n_given: int, of_source: bool = True, licence: str = "") -> dict[str, Any]:
        """Return the entries `data` and `left_out` of a run's manifest.

        `n_given` is the number of structures of the data set, and `licence` that of the data.
        `of_source` tells whether the descriptor is that of a source model. `n_copies` counts
        structures that repeat another one under a different id.
        """
        data: dict[str, Any] = {
            "fingerprint": self.content(),
            "n_labelled": len(self),
            "n_given": n_given,
            "n_formulas": self.near_copies.n_formulas,
        }
        data |= {} if of_source else {"of_source": False}
        data |= {"licence": licence} if licence else {}
        n_copies = len(self) - len(set(self.crystals))
        data |= {"n_copies": n_copies} if n_copies else {}
        return {"data": data, "left_out": [to_dict(structure) for structure in self.left_out]}

    def rows(self, rows: NDArray[np.int64]) -> "Table":
        """Return the table of some rows, in their order."""
        baseline = None if self.baseline_eV is None else self.baseline_eV[rows]
        return Table(
            [self.records[i] for i in rows],
            self.features[rows],
            self.gaps_eV[rows],
            baseline_eV=baseline,
        )


def with_baseline_column(
    features: NDArray[np.floating[Any]], baseline_eV: NDArray[np.float64] | None
) -> NDArray[np.floating[Any]]:
    """Return features (n, p) with a baseline (n,) as the last column, if there is one."""
    return features if baseline_eV is None else np.column_stack([features, baseline_eV])


def learnable(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: DescriptorConfig,
    of_source: bool = True,
    baseline_eV: NDArray[np.floating[Any]] | None = None,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    mapped_from_bytes: int | None = None,
    progress: Progress = no_progress,
) -> Table:
    """Describe the structures that have a gap and return the table of those for training.

    Parameters
    ----------
    records
        Structures; refused ones are skipped.
    gaps_eV
        Gaps (n,) in eV; structures with NaN are skipped.
    descriptor
        Descriptor; structures with other elements are left out.
    of_source
        Whether the descriptor is that of a source model, for the advice in the error message.
    baseline_eV
        Baselines (n,) in eV; structures with NaN are left out.
    cache, n_jobs, progress
        As in `featurize`.
    mapped_from_bytes
        Size from which the features are kept in a file that is mapped into memory.

    Raises
    ------
    InputError
        If the lengths differ, or if no structure remains, with the first reason and what to do.
    """
    gaps = _checked_gaps(records, gaps_eV)
    usable = usable_rows(records, gaps)
    described = featurize(
        [records[i] for i in usable],
        descriptor,
        cache=cache,
        n_jobs=n_jobs,
        mapped_from_bytes=mapped_from_bytes,
        progress=progress,
    )
    return _table_of(
        records,
        gaps,
        usable,
        problems=[None if p is None else p.text for p in described.problems],
        features=described.features,
        descriptor=descriptor,
        of_source=of_source,
        baseline_eV=baseline_eV,
    )


def learnable_without_features(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: DescriptorConfig,
    of_source: bool = True,
    baseline_eV: NDArray[np.floating[Any]] | None = None,
) -> Table:
    """Return the table of `learnable` with no features, (n, 0).

    It costs little: a structure is left out for its elements or its cell, before it is described.
    Parameters and errors are those of `learnable`.
    """
    from bandgap.descriptors.mbtr import obstacle  # loads ASE
    from bandgap.descriptors.user_features import own_problem

    gaps = _checked_gaps(records, gaps_eV)
    usable = usable_rows(records, gaps)
    problems = [
        None
        if (atoms := records[i].atoms) is None
        else obstacle(atoms, descriptor) or own_problem(records[i], descriptor.user_features)
        for i in usable
    ]
    return _table_of(
        records,
        gaps,
        usable,
        problems=problems,
        features=np.empty((len(usable), 0), dtype=np.float32),
        descriptor=descriptor,
        of_source=of_source,
        baseline_eV=baseline_eV,
    )


def usable_rows(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> list[int]:
    """Return the rows of the structures that are not refused and have a gap (not NaN)."""
    pairs = zip(records, gaps_eV, strict=False)  # `learnable` checks that the lengths agree
    return [
        row
        for row, (record, gap) in enumerate(pairs)
        if record.status != "refused" and np.isfinite(gap)
    ]


def _checked_gaps(
    records: Sequence[StructureRecord], gaps_eV: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Return the gaps as float64; raise InputError unless there is one for each structure."""
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    if len(records) != gaps.shape[0]:
        raise InputError(
            f"{len(records)} structures but {gaps.shape[0]} gaps: one gap (or NaN) for each is"
            " expected."
        )
    return gaps


def _table_of(
    records: Sequence[StructureRecord],
    gaps: NDArray[np.float64],
    usable: list[int],
    *,
    problems: Sequence[str | None],
    features: NDArray[np.float32],
    descriptor: DescriptorConfig,
    of_source: bool,
    baseline_eV: NDArray[np.floating[Any]] | None,
) -> Table:
    """Return the table of the usable structures that have no problem and a baseline."""
    labelled = [records[i] for i in usable]
    baselines = None if baseline_eV is None else np.asarray(baseline_eV, dtype=np.float64)[usable]
    texts = list(problems)
    if baselines is not None:
        texts = [
            t or (None if np.isfinite(b) else NO_BASELINE)
            for t, b in zip(texts, baselines, strict=True)
        ]
    rows = [k for k, text in enumerate(texts) if text is None]
    if not rows:
        reasons = [text for text in texts if text is not None] or [
            r.problem for r in records if r.problem
        ]
        reason = reasons[0] if reasons else "no structure has a gap"
        raise InputError(
            f"None of {len(records)} structures can be learned from:"
            f" {reason}{_remedy(labelled, descriptor, of_source)}"
        )
    left_out = [
        _left_out(labelled[k], text, descriptor) for k, text in enumerate(texts) if text is not None
    ]
    baseline = None if baselines is None else baselines[rows]
    # A prediction needs only the small functions of this module.
    from bandgap.descriptors.feature_arrays import take_rows

    return Table(
        [labelled[k] for k in rows],
        take_rows(features, np.array(rows, dtype=np.int64)),
        gaps[usable][rows],
        left_out,
        baseline,
    )


def _left_out(record: StructureRecord, problem: str, descriptor: DescriptorConfig) -> LeftOut:
    missing_elements = tuple(sorted(elements_of(record) - set(descriptor.elements)))
    return (
        LeftOut(record.id, missing_elements)
        if missing_elements
        else LeftOut(record.id, problem=problem)
    )


def _remedy(
    records: Sequence[StructureRecord], descriptor: DescriptorConfig, of_source: bool
) -> str:
    """Return advice if the structures have elements that the descriptor lacks, otherwise ""."""
    present = set().union(*(elements_of(record) for record in records)) & set(ELEMENTS)
    if present <= set(descriptor.elements):
        return ""
    if not of_source:
        return (
            " Leave out `--preset` and `--species`: the descriptor is then made for the elements of"
            " the structures."
        )
    species = " ".join(sorted(present, key=ELEMENTS.index))
    return (
        " The descriptor is that of the source model. Train one for these elements, on other"
        " structures that contain them "
        f'if there are any: `bandgap train-source --species "{species}"` (on the page Source models'
        ' from a data set of such structures, the descriptor "for the elements of these'
        ' structures"). Or do without a source: `--source none` (on the page Train, "No source'
        ' model"), by a method such as gaussian_process.'
    )


def elements_of(record: StructureRecord) -> set[str]:
    """Return the element symbols of a structure, empty if it is refused."""
    return set() if record.atoms is None else {str(symbol) for symbol in record.atoms.symbols}
