"""What cross-conformal methods share: folds by seed, one fit without each fold, errors on the rows left out; trees.

Everything that looks at gaps happens anew without each fold, the choice of settings included, or the errors would be
too small. The source gives nothing but its descriptor. Trees are scikit-learn's, stored as flat arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, Update
from bandgap.posterior import ConformalPosterior, Diagnostics
from bandgap.posterior.fold_models import FoldModels, TreeModels
from bandgap.posterior.training_rows import varying_columns
from bandgap.predictions.conformal import smallest_calibration_set
from bandgap.transfer.shared.method import TargetData

FOLDS = 10
LEVEL = 0.95  # of the interval that a warning is about


def check_folds(folds: int, *, method: str) -> None:
    """Raise ConfigError for fewer than 2 folds."""
    if folds < 2:
        raise ConfigError(f"{method}: folds = {folds}. Accepted: 2 or more, such as {FOLDS}.")


def fold_of_rows(n: int, *, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold (n,) of every row, at random and of equal sizes; as many folds as rows where `folds` is more."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 0xC0F01D])).permutation(n)
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % min(folds, n)
    return fold


def fold_seed(seed: int, k: int) -> int:
    """Return a seed of its own, below 2^32, for the fit without fold k."""
    return int(np.random.SeedSequence([seed, k]).generate_state(1)[0])


def without_each(
    fold: NDArray[np.int64], *, phase: str, progress: Progress
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield every fold's number and the rows outside it; tell the progress how many are done."""
    folds = int(fold.max()) + 1
    for k in range(folds):
        progress(Update(phase, k, folds))
        yield k, np.flatnonzero(fold != k)
    progress(Update(phase, folds, folds))


def conformal_posterior(
    models: FoldModels, data: TargetData, fold: NDArray[np.int64]
) -> ConformalPosterior:
    """Return the posterior of fold models, from their errors on the rows that they had not seen."""
    n = fold.size
    errors = data.gaps_eV - models.predict_eV(data.features)[fold, np.arange(n)]
    figures = {"cv_rmse_eV": float(np.sqrt(np.mean(errors**2))), "folds": float(fold.max() + 1)}
    return ConformalPosterior(models, fold, errors, diagnostics=Diagnostics(figures, _warnings(n)))


def _warnings(n: int) -> tuple[str, ...]:
    if n >= smallest_calibration_set(LEVEL):
        return ()
    return (
        f"{n} labelled structures are too few for {100 * LEVEL:g} % intervals, which need "
        f"{smallest_calibration_set(LEVEL)} errors: read those of {100 * n // (n + 1)} % or less.",
    )


@dataclass(frozen=True, eq=False)
class TreeSum:
    """A fitted model as a sum: intercept in eV plus `weight` times every tree's leaf; trees are scikit-learn's."""

    trees: Sequence[Any]
    weight: float
    intercept: float


def fit_trees(
    data: TargetData,
    grow: Callable[[NDArray[np.float32], NDArray[np.float64], int], TreeSum],
    *,
    folds: int,
    seed: int,
    phase: str,
    progress: Progress,
) -> ConformalPosterior:
    """Grow trees on features (n, column), gaps in eV and a seed without each fold in turn, and store them flat."""
    columns = varying_columns(data.features)
    x = np.ascontiguousarray(data.features[:, columns], dtype=np.float32)
    fold = fold_of_rows(data.gaps_eV.size, folds=folds, seed=seed)
    with few_blas_threads():
        sums = [
            grow(x[used], data.gaps_eV[used], fold_seed(seed, k))
            for k, used in without_each(fold, phase=phase, progress=progress)
        ]
        models = flat_trees(sums, columns=columns, n_features=data.features.shape[1])
        return conformal_posterior(models, data, fold)


def flat_trees(
    sums: Sequence[TreeSum], *, columns: NDArray[np.int64], n_features: int
) -> TreeModels:
    """Lay the nodes of all trees of all models one after the other."""
    trees = [(tree.tree_, total.weight) for total in sums for tree in total.trees]
    first = np.cumsum([0, *(tree.node_count for tree, _ in trees)])
    feature, threshold, children, value = [], [], [], []
    for (tree, weight), start in zip(trees, first, strict=False):
        leaf, here = tree.children_left < 0, np.arange(tree.node_count)
        feature.append(np.where(leaf, 0, tree.feature))
        threshold.append(_rounded_down(np.where(leaf, 0.0, tree.threshold)))
        below = np.stack([tree.children_left, tree.children_right], axis=1)
        children.append(start + np.where(leaf[:, None], here[:, None], below))
        value.append(np.where(leaf, weight * tree.value[:, 0, 0], 0.0))
    return TreeModels(
        n_features=n_features,
        columns=columns,
        intercepts=np.array([total.intercept for total in sums]),
        roots=first[:-1].reshape(len(sums), -1).astype(np.int64),
        feature=np.concatenate(feature).astype(np.int32),
        threshold=np.concatenate(threshold),
        children=np.concatenate(children).astype(np.int32),
        value=np.concatenate(value).astype(np.float32),
    )


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 at or below each value."""
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
