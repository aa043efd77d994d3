"""Sums over the leaves of trees that structures reach, by compiled loops."""

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import compiled


@compiled
def sum_leaves(
    roots: NDArray[np.int64],
    feature: NDArray[np.int32],
    threshold: NDArray[np.float32],
    children: NDArray[np.int32],
    value: NDArray[np.float32],
    x: NDArray[np.float32],
    sums: NDArray[np.float64],
) -> None:
    """Add the values of the leaves that rows reach, of all trees of a fold, to `sums` (fold, m).

    `x` (m, column) are the features; the others are those of `fold_models.TreeModels`.
    """
    for fold in range(roots.shape[0]):
        for root in roots[fold]:
            for row in range(x.shape[0]):
                node = root
                while True:
                    is_right = x[row, feature[node]] > threshold[node]
                    below = children[node, 1 if is_right else 0]
                    if below == node:
                        break
                    node = below
                sums[fold, row] += value[node]
