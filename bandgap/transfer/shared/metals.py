"""Metals among the labels: when they are modelled apart, and the fit of their classifier.

A label of at most `ZERO_EV` is that of a metal. With at least `LEAST` metals and as many
semiconductors a classifier is fitted to all rows, and the method to the semiconductors
(`posterior.metals`). With fewer, the method learns zeros as any other gap.

A semiconductor that the classifier takes for a metal has a smaller gap than a regression on
semiconductors says: the classifier also knows the metals nearby (compare the correction for
selection of Heckman, 1979, Econometrica 47, 153). And the regression's normals lie too high once
they are cut at zero. A straight line in the classifier's score, by a regression with the cut
distribution (Amemiya, 1973, Econometrica 41, 997), reduces both. Its size is that of the left-out
errors of a Gaussian process on the descriptor. So it is for methods without a source only; with a
source, errors may be smaller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr

from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.config import feature_terms
from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.gaussian_process.importance import mode_near
from bandgap.inference.gaussian_process.probit import ProbitProblem
from bandgap.inference.gaussian_process.product_kernel import ProductKernelProblem, prior_of
from bandgap.posterior import Diagnostics, Floats, Posterior
from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.metal_classifier import MetalClassifier, MetalScores, by_part, tree_scores
from bandgap.posterior.metals import NO_LINE, MetalsPosterior, ScoreLine
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.predictions.gap_distribution import LEAST, ZERO_EV, enough_metals
from bandgap.transfer.shared.cross_conformal import FOLDS, fold_seed, without_each
from bandgap.transfer.shared.method import TargetData
from bandgap.transfer.shared.trees import TreeSum, flat_trees

SCALE_ROWS = 500  # largest number of rows that the kernel's scales are fitted to
MOST_ROWS = 3000  # largest number of rows of the Gaussian process
TREES = 300
LEARNING_RATE = 0.05
DEPTH = 3
ROW_SHARE = 0.5
FEATURE_SHARE = 0.05
LEAF_ROWS = 3
LEAST_SPREAD = 1e-6  # of gaps, relative to their mean, that is their unit
# Prior mean and sd of the weights of the Gaussian process, the trees and the constant.
WEIGHTS_MEAN = np.array([0.5, 0.5, 0.0])
WEIGHTS_SD = np.array([0.35, 0.35, 0.35])

Features = NDArray[np.floating]


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
    return replace(data, features=data.features[rows], gaps_eV=data.gaps_eV[rows])


@dataclass(frozen=True, eq=False)
class MetalsFit:
    """The classifier and the line in its score, which are fitted to all rows.

    `figures` are the number of metals; area under the ROC curve and mean log score of the
    classifier on left-out rows; intercept and slope of the line, and the slope's standard
    deviation, in eV.
    """

    classifier: MetalClassifier
    line: ScoreLine
    figures: Mapping[str, float]


def with_metals(posterior: Posterior, fitted: MetalsFit) -> MetalsPosterior:
    """Return the posterior of the semiconductors with the classifier, the line and their
    figures.
    """
    diagnostics = posterior.diagnostics
    figures = {**diagnostics.figures, **fitted.figures}
    return MetalsPosterior(
        posterior,
        fitted.classifier,
        fitted.line,
        Diagnostics(figures, diagnostics.warnings, diagnostics.record),
    )


def fit_metals(
    data: TargetData,
    descriptor: DescriptorConfig,
    *,
    with_line: bool,
    seed: int,
    progress: Progress = no_progress,
) -> MetalsFit:
    """Fit the classifier of metals to all rows, and the line to the semiconductors, on the CPU.

    The seed gives the folds and trees of the classifier. Without `with_line` there is no line.
    """
    is_metal = data.gaps_eV <= ZERO_EV
    y = np.where(is_metal, 1.0, -1.0)
    fold = stratified_folds(is_metal, folds=FOLDS, seed=seed)
    with few_blas_threads():
        trees = _fit_trees(data.features, is_metal, fold, seed=seed, progress=progress)
        by_fold = trees.predict_eV(data.features)
        t = tree_scores(by_fold[fold, np.arange(y.size)])
        progress(Update("classifying metals"))
        gp_rows = _subset(is_metal, MOST_ROWS, seed=seed)
        (rows, ends), problem = _before_sites(data.features[gp_rows], y[gp_rows], descriptor)
        theta = _scales(problem, seed=seed)
        sites = problem.sites(theta)
        left_out = MetalScores(*problem.left_out(theta, sites), t[gp_rows])
        weights, covariance = weigh(y[gp_rows], left_out)
        scores = left_out.weighted(weights)
        line = NO_LINE
        if with_line:
            semiconducting = np.flatnonzero(~is_metal[gp_rows])
            line = fit_line(
                tuple(square[np.ix_(semiconducting, semiconducting)] for square in problem.squares),
                data.gaps_eV[gp_rows][semiconducting],
                scores[semiconducting],
            )
    classifier = MetalClassifier(
        rows=rows,
        trees=trees,
        ends=ends,
        is_metal=is_metal[gp_rows],
        theta=theta,
        site_precision=sites.precision,
        site_shift=sites.shift,
        weights=weights,
        weights_covariance=covariance,
        n_rows=int(gp_rows.size),
        seed=seed,
    )
    figures = {
        "metals": float(is_metal.sum()),
        "auc_metal_left_out": area_under_roc(is_metal[gp_rows], scores),
        "log_score_metal_left_out": float(log_ndtr(y[gp_rows] * scores).mean()),
    }
    if with_line:
        figures |= {
            "metal_score_intercept_eV": line.intercept_eV,
            "metal_score_slope_eV": line.slope_eV,
            "metal_score_slope_sd_eV": float(np.sqrt(line.covariance_eV2[1])),
        }
    return MetalsFit(classifier, line, figures)


def fit_line(squares: tuple[Floats, ...], gaps_eV: Floats, scores: Floats) -> ScoreLine:
    """Return the line that semiconductors' gaps need in the classifier's score.

    A Gaussian process on the descriptor's blocks (`parts_gp`) gives mean and variance of every gap
    from the others. The line is added to the means, and the normals are cut at zero. Intercept and
    slope have normal priors of mean 0 and, as standard deviation, that of the gaps; their mode and
    covariance are Laplace's.

    Parameters
    ----------
    squares
        Squared distances (n, n) between the semiconductors in each block of the descriptor.
    gaps_eV
        Their gaps (n,), in eV.
    scores
        Normal scores (n,) of the probability of a metal, from the classifier without each row.
    """
    middle_eV = float(gaps_eV.mean())
    unit_eV = float(gaps_eV.std())
    if unit_eV < LEAST_SPREAD * middle_eV:  # equal gaps
        unit_eV = middle_eV
    problem = ProductKernelProblem(squares, (gaps_eV - middle_eV) / unit_eV)
    mean, variance = problem.left_out(_regression_scales(problem))
    centres = mean + middle_eV / unit_eV
    sds = np.sqrt(variance)
    y = gaps_eV / unit_eV
    excess = scores - scores.mean()

    def negative(line: Floats) -> float:
        """Return minus the log density of intercept and slope (2,), up to a constant."""
        changed = centres + line[0] + line[1] * excess
        log_densities = -0.5 * ((y - changed) / sds) ** 2 - log_ndtr(changed / sds)
        return float(0.5 * line @ line - log_densities.sum())

    line = np.asarray(minimize(negative, np.zeros(2), method="BFGS").x, dtype=np.float64)
    precisions, axes = np.linalg.eigh(_second_derivatives(negative, line))
    # The likelihood is log-concave, so that the precision is at least that of the prior.
    covariance = unit_eV**2 * (axes / np.maximum(precisions, 1.0)) @ axes.T
    return ScoreLine(
        intercept_eV=float(unit_eV * line[0]),
        slope_eV=float(unit_eV * line[1]),
        covariance_eV2=(
            float(covariance[0, 0]),
            float(covariance[1, 1]),
            float(0.5 * (covariance[0, 1] + covariance[1, 0])),
        ),
        mean_score=float(scores.mean()),
        lowest=float(scores.min()),
        highest=float(scores.max()),
    )


def _regression_scales(problem: ProductKernelProblem) -> Floats:
    """Return the mode of the regression's scales, fitted to at most `SCALE_ROWS` rows.

    These are evenly spaced.
    """
    start, _ = prior_of(len(problem.squares))
    n = problem.y.size
    rows = np.linspace(0, n - 1, min(n, SCALE_ROWS)).astype(np.int64)
    squares = tuple(square[np.ix_(rows, rows)] for square in problem.squares)
    return mode_near(ProductKernelProblem(squares, problem.y[rows]).log_density, start)


def stratified_folds(is_metal: NDArray[np.bool_], *, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold (n,) of every row, with as many metals in each fold, up to one."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x3E7A]))
    fold = np.empty(is_metal.size, dtype=np.int64)
    for rows in (np.flatnonzero(is_metal), np.flatnonzero(~is_metal)):
        fold[rng.permutation(rows)] = np.arange(rows.size) % folds
    return fold


def weigh(y: Floats, left_out: MetalScores) -> tuple[Floats, Floats]:
    """Return mode and covariance of the weights of both scores, by Laplace's approximation.

    Parameters
    ----------
    y
        Classes (n,) of -1 and 1.
    left_out
        Scores of n rows: of the Gaussian process at each row given all others, and of the trees
        without the row's fold.
    """

    def negative(weights: Floats) -> float:
        z = (weights - WEIGHTS_MEAN) / WEIGHTS_SD
        return float(0.5 * z @ z - log_ndtr(y * left_out.weighted(weights)).sum())

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
            n_estimators=TREES,
            learning_rate=LEARNING_RATE,
            max_depth=DEPTH,
            subsample=ROW_SHARE,
            max_features=FEATURE_SHARE,
            min_samples_leaf=LEAF_ROWS,
            random_state=fold_seed(seed, k),
        ).fit(x[rows], is_metal[rows])
        share = float(is_metal[rows].mean())
        log_odds = float(np.log(share / (1.0 - share)))
        sums.append(TreeSum(boosted.estimators_[:, 0], LEARNING_RATE, log_odds))
    return flat_trees(sums, columns=columns, n_features=features.shape[1])


def _before_sites(
    features: Features, y: Floats, descriptor: DescriptorConfig
) -> tuple[tuple[TrainingRows, NDArray[np.int64]], ProbitProblem]:
    """Return the training rows with the ends of their blocks, and the problem on them.

    The blocks are those of `parts_gp`: the terms of MBTR together, each block after them, and the
    features after the descriptor.
    """
    rows = TrainingRows.of(features)
    blocks = feature_terms(descriptor)[max(len(descriptor.terms) - 1, 0) :]
    stops = [*(block.stop for block in blocks), features.shape[1]]
    ends = np.unique(np.searchsorted(rows.columns, stops))
    ends = ends[ends > 0].astype(np.int64)
    squares = []
    for x in by_part(rows.scaled(), ends):
        distances = cdist(x, x)
        squares.append((distances / typical_distance(distances)) ** 2)
    return (rows, ends), ProbitProblem(tuple(squares), y)


def _scales(problem: ProbitProblem, *, seed: int) -> Floats:
    """Return the mode of the kernel's scales, of a subset of many rows."""
    rows = _subset(problem.y > 0, SCALE_ROWS, seed=seed)
    if rows.size == problem.y.size:
        return problem.mode()
    squares = tuple(square[np.ix_(rows, rows)] for square in problem.squares)
    return ProbitProblem(squares, problem.y[rows]).mode()


def _subset(is_metal: NDArray[np.bool_], most: int, *, seed: int) -> NDArray[np.int64]:
    """Return all rows, or a sorted random subset of `most` with the same share of metals."""
    n = is_metal.size
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 0x3E7B]))
    n_metals = int(np.clip(round(most * is_metal.mean()), LEAST, most - LEAST))
    metals = rng.choice(np.flatnonzero(is_metal), min(n_metals, int(is_metal.sum())), replace=False)
    semiconductor_rows = np.flatnonzero(~is_metal)
    n_others = min(most - metals.size, semiconductor_rows.size)
    return np.sort(
        np.concatenate([metals, rng.choice(semiconductor_rows, n_others, replace=False)])
    )
