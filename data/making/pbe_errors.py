"""Errors of the shipped models by chemistry: of left-out rows, and of the whole recipe.

Left-out rows are predicted by the models without their fold, which the fit gives for nothing. The
whole recipe is judged on five outer splits by formula, each with a fit of its own to the other four
parts, next to peers on the same rows.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.composition import BLOCK as COMPOSITION
from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.evaluation.metrics import mae, rmse
from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior import ConformalPosterior
from bandgap.posterior.metal_classifier import MetalClassifier
from bandgap.posterior.metals import MetalsPosterior
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.runs.requests import TransferRequest
from bandgap.runs.split_rows import formula_numbers
from bandgap.runs.transfer import SplitTables, fit, prepare
from bandgap.transfer.shared.cross_conformal import fold_of_rows, without_each
from bandgap.transfer.shared.metals import stratified_folds

Floats = NDArray[np.float64]

# The chemistry of a crystal is the first whose anions it contains.
ANIONS: Final = {
    "oxides": {"O"},
    "halides": {"F", "Cl", "Br", "I"},
    "chalcogenides": {"S", "Se", "Te"},
    "pnictides": {"N", "P", "As"},
}
REST: Final = "others, such as intermetallics"
RARE: Final = 60  # crystals with a gap; a rarer element has fewer
OUTER_FOLDS: Final = 5
LEVEL: Final = 0.95


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions of labelled rows (n,) that were not learned from.

    `is_inside` tells whether a gap is in its interval, and `metal_scores` rise with the probability
    of a metal; both are None for a peer that has none.
    """

    elements: Sequence[Collection[str]]
    gaps_eV: Floats
    predicted_eV: Floats
    is_inside: NDArray[np.bool_] | None = None
    metal_scores: Floats | None = None


def left_out(posterior: MetalsPosterior, table: Table) -> Judged:
    """Return the rows that a posterior learned from, predicted by the models without their fold.

    They are inside the interval where the error is among the smaller 95 %.
    """
    semiconductors, classifier = posterior.semiconductors, posterior.classifier
    assert isinstance(semiconductors, ConformalPosterior)
    assert isinstance(classifier, MetalClassifier)
    is_gap = table.gaps_eV > ZERO_EV
    errors = np.zeros(len(table))
    errors[is_gap] = semiconductors.errors_eV
    fold = stratified_folds(
        ~is_gap,
        folds=len(classifier.trees.roots),
        seed=classifier.seed,
        groups=formula_numbers(table),
    )
    return Judged(
        table.elements,
        table.gaps_eV,
        table.gaps_eV - errors,
        np.abs(errors) <= np.quantile(np.abs(errors[is_gap]), LEVEL),
        classifier.trees.predict_eV(table.features)[fold, np.arange(len(table))],
    )


def error_rows(judged: Judged) -> list[dict[str, Any]]:
    """Return errors of gaps, the share inside the interval and the area under the ROC curve.

    There is one row for all, for each chemistry with a gap, and for crystals of rare elements.
    """
    is_gap = judged.gaps_eV > ZERO_EV
    rows = []
    for name, mask in _chemistries(judged.elements, is_gap).items():
        gaps = mask & is_gap
        if not gaps.any():
            continue
        row = {
            "chemistry": name,
            "n": int(gaps.sum()),
            "rmse_eV": rmse(judged.gaps_eV[gaps], judged.predicted_eV[gaps]),
            "mae_eV": mae(judged.gaps_eV[gaps], judged.predicted_eV[gaps]),
        }
        if judged.is_inside is not None:
            row["coverage_95"] = float(judged.is_inside[gaps].mean())
        if judged.metal_scores is not None and (mask & ~is_gap).any():
            row["auc_metal"] = area_under_roc(~is_gap[mask], judged.metal_scores[mask])
        rows.append(row)
    return rows


def _chemistries(
    elements: Sequence[Collection[str]], is_gap: NDArray[np.bool_]
) -> dict[str, NDArray[np.bool_]]:
    counts = Counter(
        symbol for of_row, gap in zip(elements, is_gap, strict=True) if gap for symbol in of_row
    )
    unassigned = np.ones(is_gap.size, dtype=np.bool_)
    masks = {"all": unassigned.copy()}
    for name, anions in ANIONS.items():
        masks[name] = unassigned & [not anions.isdisjoint(of_row) for of_row in elements]
        unassigned &= ~masks[name]
    masks[REST] = unassigned
    masks[f"an element of fewer than {RARE} crystals"] = np.array(
        [min(counts[symbol] for symbol in of_row) < RARE for of_row in elements]
    )
    return masks


def judge(
    data: LabelledSet,
    request: TransferRequest,
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Iterator[dict[str, Judged]]:
    """Yield the predictions of a recipe and of its peers on five splits by formula."""
    prepared = prepare(None, data, request)
    table = learnable(
        data.records,
        data.gaps_eV,
        descriptor=prepared.descriptor,
        of_source=False,
        cache=cache,
        progress=progress,
    )
    groups = formula_numbers(table)
    fold = fold_of_rows(len(table), folds=OUTER_FOLDS, seed=request.seed + 1, groups=groups)
    for k, rows in without_each(fold, phase="judging the recipe", progress=progress):
        train, test = table.rows(rows), table.rows(np.flatnonzero(fold == k))
        none = table.rows(rows[:0])
        # The method has no state to resume from.
        fitted = fit(prepared, SplitTables(train, none, none), checkpoints=Path())
        draws = fitted.posterior.predictive_draws(test.inputs)
        lower, upper = draws.gaps.interval(LEVEL)
        is_inside = (lower <= test.gaps_eV) & (test.gaps_eV <= upper)
        mean_eV = draws.flat_means_eV.mean(axis=0)
        recipe = Judged(test.elements, test.gaps_eV, mean_eV, is_inside, draws.p_metal)
        yield {"recipe": recipe, **_peers(train, test)}


def joined(parts: Sequence[Judged]) -> Judged:
    """Return the rows of several splits as one."""
    inside = [part.is_inside for part in parts if part.is_inside is not None]
    scores = [part.metal_scores for part in parts if part.metal_scores is not None]
    return Judged(
        [elements for part in parts for elements in part.elements],
        np.concatenate([part.gaps_eV for part in parts]),
        np.concatenate([part.predicted_eV for part in parts]),
        np.concatenate(inside) if inside else None,
        np.concatenate(scores) if scores else None,
    )


def _peers(train: Table, test: Table) -> dict[str, Judged]:
    """Return the predictions of gaps by boosted trees and a Laplacian kernel of scikit-learn."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    is_gap = train.gaps_eV > ZERO_EV
    width = COMPOSITION.width(True)
    peers = {
        "boosted trees, composition": (
            HistGradientBoostingRegressor(max_iter=500, max_features=0.2, random_state=0),
            slice(width),
        ),
        "kernel ridge, all features": (
            make_pipeline(StandardScaler(), KernelRidge(alpha=0.01, kernel="laplacian")),
            slice(None),
        ),
    }
    judged = {}
    for name, (model, columns) in peers.items():
        model.fit(train.features[is_gap, columns].astype(np.float64), train.gaps_eV[is_gap])
        predicted_eV = model.predict(test.features[:, columns].astype(np.float64))
        judged[name] = Judged(test.elements, test.gaps_eV, predicted_eV)
    return judged
