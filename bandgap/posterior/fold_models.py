"""Models that were each fitted without one fold of the training rows: kernels, trees and networks.

They are evaluated from stored arrays. As in scikit-learn, the left child of a node
is taken if the feature, as float32, is at most the threshold. Thresholds are rounded down to
float32, which changes no decision.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.gaussian_process.label_weights import (
    WeightsAndChanges,
    averaged,
    weights_and_changes,
)
from bandgap.posterior.protocol import Floats, by_block
from bandgap.posterior.training_rows import TrainingRows, columns_of

Rows = NDArray[np.floating[Any]]
MOST_SCALES = 10.0  # so that an unusual feature moves a network no farther than its training rows
ROWS_PER_BLOCK = 1024  # structures predicted together; bounds the memory


@dataclass(frozen=True, eq=False)
class LaplacianModels:
    """Kernel expansions f(x) = intercept + sum_i a_i exp(-|x - x_i|_1 / length).

    a_i is 0 for the rows of the fold that is left out.
    """

    kind: ClassVar[str] = "laplacian"

    rows: TrainingRows
    lengths: Floats  # (fold,)
    coefficients: Floats  # (fold, n), in eV
    intercepts: Floats  # (fold,), in eV

    def predict_eV(self, features: Rows) -> Floats:
        """Return the prediction (fold, m) of every model for raw features (m, p)."""
        return by_block(self._block, features, rows=ROWS_PER_BLOCK)[0]

    def _block(self, features: Rows) -> tuple[Floats]:
        distances = self.rows.distances(features, "cityblock")
        folds = zip(self.lengths, self.coefficients, strict=True)
        return (
            self.intercepts[:, None] + np.stack([np.exp(-distances / s) @ a for s, a in folds]),
        )

    def label_weights(self, features: Rows, gaps_eV: Floats) -> WeightsAndChanges:
        """Return weights (m, n) of the labels and changes in eV for raw features (m, p).

        They are means over the folds. A label has no weight in the fold without it. The penalty of
        a fold follows from its coefficients: penalty a = y - intercept - K a.
        """
        new = self.rows.distances(features, "cityblock")
        between = self.rows.own_distances("cityblock")
        folds = []
        for length, a, intercept in zip(
            self.lengths, self.coefficients, self.intercepts, strict=True
        ):
            members = np.flatnonzero(a)
            kernel = np.exp(-between[np.ix_(members, members)] / length)
            y = gaps_eV[members] - intercept
            penalty = a[members] @ (y - kernel @ a[members]) / (a[members] @ a[members])
            kernel[np.diag_indices(members.size)] += penalty
            fold = weights_and_changes(np.exp(-new[:, members] / length), kernel, y)
            full = np.zeros((2, *new.shape))
            full[:, :, members] = fold
            folds.append(WeightsAndChanges(*full))
        return averaged(folds)


@dataclass(frozen=True, eq=False)
class TreeModels:
    """Sums of regression trees: f(x) = intercept + the value of one leaf of each tree.

    All trees are in flat arrays. A leaf is its own child, at which a walk ends.
    """

    kind: ClassVar[str] = "trees"

    n_features: int
    columns: NDArray[np.int64]  # features that the trees use
    intercepts: Floats  # (fold,), in eV
    roots: NDArray[np.int64]  # node at which a tree starts, (fold, tree)
    feature: NDArray[np.int32]  # (node,), a position in `columns`
    threshold: NDArray[np.float32]  # (node,)
    children: NDArray[np.int32]  # left and right, (node, 2)
    value: NDArray[np.float32]  # (node,), in eV, zero except at leaves

    def predict_eV(self, features: Rows) -> Floats:
        """Return the prediction (fold, m) of every model for raw features (m, p)."""
        return by_block(self._block, features, rows=ROWS_PER_BLOCK)[0]

    def _block(self, features: Rows) -> tuple[Floats]:
        x = columns_of(features, self.columns, n_features=self.n_features).astype(np.float32)
        # Imports numba, which the dashboard does not need.
        from bandgap.posterior.tree_walks import sum_leaves

        sums = np.zeros((len(self.roots), len(x)))
        trees = (self.roots, self.feature, self.threshold, self.children, self.value)
        sum_leaves(*trees, x, sums)
        return (self.intercepts[:, None] + sums,)


@dataclass(frozen=True, eq=False)
class NetworkModels:
    """Networks of ReLU layers on scaled features, one for each fold.

    `layers[l]` are the weights of layer l + 1, (fold, out, in + 1), the bias last; the last layer
    gives eV. They are stored as float16, whose rounding is part of the model.
    """

    kind: ClassVar[str] = "networks"

    n_features: int
    columns: NDArray[np.int64]  # features that vary among the training rows
    mean: Floats  # (column,)
    scale: Floats  # (column,)
    layers: tuple[NDArray[np.float16], ...]

    def predict_eV(self, features: Rows) -> Floats:
        """Return the prediction (fold, m) of every model for raw features (m, p)."""
        return by_block(self._block, features, rows=ROWS_PER_BLOCK)[0]

    def _block(self, features: Rows) -> tuple[Floats]:
        x = columns_of(features, self.columns, n_features=self.n_features)
        values = scaled(x, self.mean, self.scale)[None]
        *hidden, last = self.layers
        for weights in hidden:
            values = np.maximum(_affine(values, weights), 0.0)
        return (_affine(values, last)[:, :, 0].astype(np.float64),)


@dataclass(frozen=True, eq=False)
class BlendedModels:
    """Weighted means of a network and of boosted trees, one pair for each fold."""

    kind: ClassVar[str] = "networks and trees"

    networks: NetworkModels
    trees: TreeModels
    trees_share: float

    def predict_eV(self, features: Rows) -> Floats:
        """Return the prediction (fold, m) of every pair for raw features (m, p)."""
        networks_eV = self.networks.predict_eV(features)
        return networks_eV + self.trees_share * (self.trees.predict_eV(features) - networks_eV)


def scaled(x: Rows, mean: Floats, scale: Floats) -> NDArray[np.float32]:
    """Return features (m, column) in units of their scale, at most `MOST_SCALES` from the mean."""
    return np.clip((x - mean) / scale, -MOST_SCALES, MOST_SCALES).astype(np.float32)


def _affine(values: NDArray[np.float32], layer: NDArray[np.float16]) -> NDArray[np.float32]:
    """Return values (fold or 1, m, in) times the layer's weights (fold, out, in + 1)."""
    weights = layer.astype(np.float32)
    result: NDArray[np.float32] = (
        values @ weights[:, :, :-1].swapaxes(1, 2) + weights[:, None, :, -1]
    )
    return result


FoldModels = LaplacianModels | TreeModels | NetworkModels | BlendedModels
