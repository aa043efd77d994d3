"""Metals among the labels: when they are modelled apart, and the fit of their classifier.

A label of at most `ZERO_EV` is that of a metal. With at least `LEAST` metals and as many
semiconductors a classifier is fitted to all rows, and the method to the semiconductors
(`posterior.metals`). With fewer, the method learns zeros as any other gap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr

from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior import Floats, Posterior
from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.metal_classifier import MetalClassifier, tree_scores
from bandgap.posterior.metals import MetalsPosterior
from bandgap.predictions.gap_distribution import LEAST, ZERO_EV, enough_metals
from bandgap.transfer.shared.cross_conformal import FOLDS, fold_of_rows, fold_seed, without_each
from bandgap.transfer.shared.method import TargetData
from bandgap.transfer.shared.trees import TreeSum, flat_trees

LARGE = 5_000  # rows from which trees are deeper, and fewer


@dataclass(frozen=True)
class Growth:
    """Folds, and numbers, learning rate and depth of the trees without each of them."""

    folds: int = FOLDS
    trees: int = 300
    learning_rate: float = 0.05
    depth: int = 3


# On 16,500 crystals the area under the ROC curve was 0.961 instead of 0.952.
OF_LARGE_SETS = Growth(folds=5, trees=150, learning_rate=0.1, depth=6)
ROW_SHARE = 0.5
FEATURE_SHARE = 0.05
LEAF_ROWS = 3
# Prior mean and sd of the weights of the trees and the constant.
WEIGHTS_MEAN = np.array([1.0, 0.0])
WEIGHTS_SD = np.array([0.35, 0.35])

Features = NDArray[np.floating]
Figures = Mapping[str, float]


def has_metals(gaps_eV: Floats) -> bool:
    """Return whether gaps (n,) in eV contain enough metals and semiconductors for a classifier."""
    return enough_metals(int((gaps_eV <= ZERO_EV).sum()), gaps_eV.size)


def metals_warning(gaps_eV: Floats) -> str:
    """Return a warning where zeros among gaps (n,) in eV are learned as any other gap, else an
    empty text.
    """
    n_metals = int((gaps_eV <= ZERO_EV).sum())
    if n_metals == 0 or has_metals(gaps_eV):
        return ""
    n_others = gaps_eV.size - n_metals
    return (
        f"{n_metals} of {gaps_eV.size} labels are zero. A probability of a metal needs at least "
        f"{LEAST} metals and {LEAST} semiconductors (found {n_others}): zeros are learned as any "
        "other gap."
    )


def semiconductors(data: TargetData) -> TargetData:
    """Return the rows with a positive gap."""
    rows = data.gaps_eV > ZERO_EV
    groups = None if data.groups is None else data.groups[rows]
    return replace(data, features=data.features[rows], gaps_eV=data.gaps_eV[rows], groups=groups)


def with_metals(
    posterior: Posterior, classifier: MetalClassifier, figures: Figures
) -> MetalsPosterior:
    """Return the posterior of the semiconductors with the classifier and its figures."""
    diagnostics = posterior.diagnostics
    return MetalsPosterior(
        posterior,
        classifier,
        replace(diagnostics, figures={**diagnostics.figures, **figures}),
    )


def fit_classifier(
    data: TargetData, *, seed: int, progress: Progress = no_progress
) -> tuple[MetalClassifier, Figures]:
    """Fit the classifier of metals to all rows, on the CPU.

    The seed gives its folds and trees.

    Returns
    -------
    tuple
        The classifier, and its figures: the number of metals; area under the ROC curve and mean log
        score on left-out rows.
    """
    is_metal = data.gaps_eV <= ZERO_EV
    y = np.where(is_metal, 1.0, -1.0)
    growth = Growth() if y.size < LARGE else OF_LARGE_SETS
    fold = stratified_folds(is_metal, folds=growth.folds, seed=seed, groups=data.groups)
    with few_blas_threads():
        trees = _fit_trees(data.features, is_metal, fold, growth, seed=seed, progress=progress)
        log_odds = trees.predict_eV(data.features)[fold, np.arange(y.size)]
    left_out = tree_scores(log_odds)
    weights, covariance = weigh(y, left_out)
    scores = weights @ left_out
    figures = {
        "metals": float(is_metal.sum()),
        "auc_metal_left_out": area_under_roc(is_metal, scores),
        "log_score_metal_left_out": float(log_ndtr(y * scores).mean()),
    }
    return MetalClassifier(trees, weights, covariance, n_rows=y.size, seed=seed), figures


def stratified_folds(
    is_metal: NDArray[np.bool_], *, folds: int, seed: int, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the fold (n,) of every row, with as many metals in each fold, up to one.

    With `groups` (n,) no fold divides a group, and the numbers of metals are about equal.
    """
    if groups is not None:
        return fold_of_rows(is_metal.size, folds=folds, seed=seed, groups=groups)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x3E7A]))
    fold = np.empty(is_metal.size, dtype=np.int64)
    for rows in (np.flatnonzero(is_metal), np.flatnonzero(~is_metal)):
        fold[rng.permutation(rows)] = np.arange(rows.size) % folds
    return fold


def weigh(y: Floats, left_out: Floats) -> tuple[Floats, Floats]:
    """Return mode and covariance of the weights of the scores, by Laplace's approximation.

    `y` are classes (n,) of -1 and 1, `left_out` the scores (score, n) of n rows by trees without
    their fold.
    """

    def negative(weights: Floats) -> float:
        z = (weights - WEIGHTS_MEAN) / WEIGHTS_SD
        return float(0.5 * z @ z - log_ndtr(y * (weights @ left_out)).sum())

    result = minimize(negative, WEIGHTS_MEAN, method="BFGS")
    weights = np.asarray(result.x, dtype=np.float64)
    covariance = np.linalg.inv(_second_derivatives(negative, weights))
    return weights, 0.5 * (covariance + covariance.T)


def _second_derivatives(
    function: Callable[[Floats], float], x: Floats, step: float = 1e-3
) -> Floats:
    """Return the matrix of second derivatives at x (k,) by central differences."""
    k = x.size
    moves = step * np.eye(k)
    matrix = np.empty((k, k))
    for i in range(k):
        for j in range(k):
            matrix[i, j] = sum(
                a * b * function(x + a * moves[i] + b * moves[j]) for a in (1, -1) for b in (1, -1)
            ) / (4.0 * step**2)
    return matrix


def _fit_trees(
    features: Features,
    is_metal: NDArray[np.bool_],
    fold: NDArray[np.int64],
    growth: Growth,
    *,
    seed: int,
    progress: Progress,
) -> TreeModels:
    """Boost trees for the log odds of a metal without each fold."""
    from sklearn.ensemble import GradientBoostingClassifier

    columns = np.flatnonzero(np.ptp(features, axis=0) > 0).astype(np.int64)
    x = np.ascontiguousarray(features[:, columns], dtype=np.float32)
    sums = []
    for k, rows in without_each(fold, phase="boosting trees for metals", progress=progress):
        boosted = GradientBoostingClassifier(
            n_estimators=growth.trees,
            learning_rate=growth.learning_rate,
            max_depth=growth.depth,
            subsample=ROW_SHARE,
            max_features=FEATURE_SHARE,
            min_samples_leaf=LEAF_ROWS,
            random_state=fold_seed(seed, k),
        ).fit(x[rows], is_metal[rows])
        share = float(is_metal[rows].mean())
        log_odds = float(np.log(share / (1.0 - share)))
        sums.append(TreeSum(boosted.estimators_[:, 0], growth.learning_rate, log_odds))
    return flat_trees(sums, columns=columns, n_features=features.shape[1])
