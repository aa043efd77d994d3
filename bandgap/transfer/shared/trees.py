"""Trees of scikit-learn with cross-conformal intervals, stored as flat arrays.

`random_forest` and `gradient_boosting` use it. Each gives a function that fits its trees to rows;
the fits without each fold (`cross_conformal`) and the flat arrays are here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import few_blas_threads
from bandgap.posterior import ConformalPosterior
from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.training_rows import varying_columns
from bandgap.transfer.shared.cross_conformal import (
    conformal_posterior,
    fold_of_rows,
    fold_seed,
    without_each,
)
from bandgap.transfer.shared.method import Fitting, TargetData


@dataclass(frozen=True, eq=False)
class TreeSum:
    """A fitted model: intercept in eV plus `weight` times the trees' leaf values."""

    trees: Sequence[Any]
    weight: float
    intercept: float


GrowTrees = Callable[[NDArray[np.float32], NDArray[np.float64], int], TreeSum]
"""Fits trees to features (n, column), gaps (n,) in eV and a seed."""


def fit_trees(
    data: TargetData, grow: GrowTrees, fitting: Fitting, *, folds: int, phase: str
) -> ConformalPosterior:
    """Grow trees without each fold in turn and store them flat."""
    columns = varying_columns(data.features)
    x = np.ascontiguousarray(data.features[:, columns], dtype=np.float32)
    fold = fold_of_rows(data.gaps_eV.size, folds=folds, seed=fitting.seed, groups=data.groups)
    with few_blas_threads():
        sums = [
            grow(x[rows], data.gaps_eV[rows], fold_seed(fitting.seed, k))
            for k, rows in without_each(fold, phase=phase, progress=fitting.progress)
        ]
        models = flat_trees(sums, columns=columns, n_features=data.features.shape[1])
        return conformal_posterior(models, data, fold)


def flat_trees(
    sums: Sequence[TreeSum], *, columns: NDArray[np.int64], n_features: int
) -> TreeModels:
    """Concatenate the nodes of all trees of all models."""
    trees = [(tree.tree_, tree_sum.weight) for tree_sum in sums for tree in tree_sum.trees]
    first_nodes = np.cumsum([0, *(tree.node_count for tree, _ in trees)])
    feature = []
    threshold = []
    children = []
    value = []
    for (tree, weight), first_node in zip(trees, first_nodes, strict=False):
        is_leaf = tree.children_left < 0
        nodes = np.arange(tree.node_count)
        feature.append(np.where(is_leaf, 0, tree.feature))
        threshold.append(_rounded_down(np.where(is_leaf, 0.0, tree.threshold)))
        both_children = np.stack([tree.children_left, tree.children_right], axis=1)
        # A leaf is its own child, so that every path may have the same number of steps.
        children.append(first_node + np.where(is_leaf[:, None], nodes[:, None], both_children))
        value.append(np.where(is_leaf, weight * tree.value[:, 0, 0], 0.0))
    return TreeModels(
        n_features=n_features,
        columns=columns,
        intercepts=np.array([tree_sum.intercept for tree_sum in sums]),
        roots=first_nodes[:-1].reshape(len(sums), -1).astype(np.int64),
        feature=np.concatenate(feature).astype(np.int32),
        threshold=np.concatenate(threshold),
        children=np.concatenate(children).astype(np.int32),
        value=np.concatenate(value).astype(np.float32),
    )


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 at or below each value."""
    nearest = values.astype(np.float32)
    return np.where(nearest > values, np.nextafter(nearest, np.float32(-np.inf)), nearest)
