"""Trees of scikit-learn with cross-conformal intervals, stored as flat arrays.

`random_forest`, `gradient_boosting` and `fresh_networks` use it. A function fits trees to rows; the
fits without each fold (`cross_conformal`) and the flat arrays are here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import AtLeastTwo, Count, Settings, ShareAboveZero
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


@dataclass(frozen=True)
class HistogramTrees(Settings):
    """Number of trees, learning rate, leaves of a tree, and share of the features at a node.

    They are grown on histograms of the features, for thousands of rows.
    """

    trees: Count = 1_000
    learning_rate: ShareAboveZero = 0.06
    leaves: AtLeastTwo = 31
    feature_share: ShareAboveZero = 0.2


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of a tree: feature, threshold, both children (-1 for a leaf), and value."""

    feature: NDArray[np.integer]
    threshold: NDArray[np.float64]
    left_child: NDArray[np.int64]
    right_child: NDArray[np.int64]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, tree: Any) -> "Nodes":
        """Return the nodes of a tree of scikit-learn, of a forest or of gradient boosting."""
        if hasattr(tree, "tree_"):
            nodes = tree.tree_
            children = (nodes.children_left, nodes.children_right)
            return cls(nodes.feature, nodes.threshold, *children, nodes.value[:, 0, 0])
        nodes = tree.nodes
        both = np.stack([nodes["left"], nodes["right"]]).astype(np.int64)
        both[:, nodes["is_leaf"] == 1] = -1
        return cls(nodes["feature_idx"], nodes["num_threshold"], both[0], both[1], nodes["value"])


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
    fold = fold_of_rows(data.gaps_eV.size, folds=folds, seed=fitting.seed, groups=data.groups)
    with few_blas_threads():
        models = trees_without_each(data, grow, fold, fitting, phase=phase)
        return conformal_posterior(models, data, fold)


def trees_without_each(
    data: TargetData,
    grow: GrowTrees,
    fold: NDArray[np.int64],
    fitting: Fitting,
    *,
    phase: str,
) -> TreeModels:
    """Grow trees without each fold (n,) in turn; return them flat."""
    columns = varying_columns(data.features)
    x = np.ascontiguousarray(data.features[:, columns], dtype=np.float32)
    sums = [
        grow(x[rows], data.gaps_eV[rows], fold_seed(fitting.seed, k))
        for k, rows in without_each(fold, phase=phase, progress=fitting.progress)
    ]
    return flat_trees(sums, columns=columns, n_features=data.features.shape[1])


def grown_on_histograms(config: HistogramTrees) -> GrowTrees:
    """Return the function that boosts such trees."""

    def grow(x: NDArray[np.float32], y: NDArray[np.float64], seed: int) -> TreeSum:
        from sklearn.ensemble import HistGradientBoostingRegressor

        boosted = HistGradientBoostingRegressor(
            max_iter=config.trees,
            learning_rate=config.learning_rate,
            max_leaf_nodes=config.leaves,
            max_features=config.feature_share,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        ).fit(x, y)
        trees = [tree for (tree,) in boosted._predictors]
        return TreeSum(trees, 1.0, float(boosted._baseline_prediction.item()))

    return grow


def flat_trees(
    sums: Sequence[TreeSum], *, columns: NDArray[np.int64], n_features: int
) -> TreeModels:
    """Concatenate the nodes of all trees of all models."""
    trees = [(Nodes.of(tree), tree_sum.weight) for tree_sum in sums for tree in tree_sum.trees]
    first_nodes = np.cumsum([0, *(len(tree.feature) for tree, _ in trees)])
    feature = []
    threshold = []
    children = []
    value = []
    for (tree, weight), first_node in zip(trees, first_nodes, strict=False):
        is_leaf = tree.left_child < 0
        nodes = np.arange(is_leaf.size)
        feature.append(np.where(is_leaf, 0, tree.feature))
        threshold.append(_rounded_down(np.where(is_leaf, 0.0, tree.threshold)))
        both_children = np.stack([tree.left_child, tree.right_child], axis=1)
        # A leaf is its own child, so that every path may have the same number of steps.
        children.append(first_node + np.where(is_leaf[:, None], nodes[:, None], both_children))
        value.append(np.where(is_leaf, weight * tree.value, 0.0))
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
