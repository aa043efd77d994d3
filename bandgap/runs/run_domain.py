"""The applicability domain of a run: descriptors, elements, and the values next to the descriptors.

These values are the gap of electron levels and a baseline. They are judged by the range of the
training rows, because the line that a method fits to them (`posterior.baseline`) is learned inside
this range.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table
from bandgap.descriptors import DescriptorConfig, similarity_features
from bandgap.predictions.domain import Domain, Judgement, LearnedRange, fit_domain

Floats = NDArray[np.float64]


def fit_run_domain(
    train: Table,
    descriptor: DescriptorConfig,
    *,
    source_species: Collection[str],
    baseline: str = "",
) -> Domain:
    """Fit the domain to the training rows; `baseline` is the name of their baseline, if any."""
    columns = _values_by_name(train.features, train.baseline_eV, descriptor, baseline=baseline)
    return fit_domain(
        similarity_features(train.features, descriptor),
        ids=train.ids,
        elements=train.elements,
        source_species=source_species,
        ranges=[LearnedRange(name, float(v.min()), float(v.max())) for name, v in columns.items()],
    )


def judge_rows(
    domain: Domain,
    features: NDArray[np.floating[Any]],
    elements: Sequence[Collection[str]],
    *,
    descriptor: DescriptorConfig,
    baseline_eV: Floats | None,
) -> tuple[Judgement, ...]:
    """Judge structures by raw features (n, p), elements, and baseline (n,) if the run has one.

    Rows of NaN are refused structures. Where the domain has no ranges, values are not judged.
    """
    names = [learned.name for learned in domain.ranges]
    baseline = names[-1] if names and baseline_eV is not None else ""
    columns = _values_by_name(features, baseline_eV, descriptor, baseline=baseline)
    complete = bool(names) and all(name in columns for name in names)
    values = np.column_stack([columns[name] for name in names]) if complete else None
    return domain.judge(similarity_features(features, descriptor), elements, values_eV=values)


def _values_by_name(
    features: NDArray[np.floating[Any]],
    baseline_eV: Floats | None,
    descriptor: DescriptorConfig,
    *,
    baseline: str,
) -> dict[str, Floats]:
    """Return the values (n,) in eV next to the descriptor by name, the baseline last."""
    values: dict[str, Floats] = {}
    if descriptor.levels != "none":
        from bandgap.descriptors.electron_levels import n_levels

        gaps = features[:, -n_levels(descriptor.levels)]
        values[f"{descriptor.levels} gap"] = gaps.astype(np.float64)
    if baseline_eV is not None:
        values[baseline or "baseline"] = np.asarray(baseline_eV, dtype=np.float64)
    return values
