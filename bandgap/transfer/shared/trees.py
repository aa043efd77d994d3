"""scikit-learn's regression trees as flat arrays, and their fits without each fold of the training rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress
from bandgap.posterior import ConformalPosterior
from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.training_rows import varying_columns
from bandgap.transfer.shared.cross_conformal import conformal_posterior, fold_of_rows, fold_seed, without_each
from bandgap.transfer.shared.method import TargetData


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


def flat_trees(sums: Sequence[TreeSum], *, columns: NDArray[np.int64], n_features: int) -> TreeModels:
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
