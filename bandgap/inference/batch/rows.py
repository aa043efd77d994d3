"""Training data of a stack of networks: rows in the coordinates of the first layer, and samples.

All gradients of the first layer are in the row space of its inputs (x, 1). With V (p + 1, r)
orthonormal, r the rank of the training rows, theta_1 = theta_hat_1 + C V' is trained as C, which
starts at 0 and has r instead of p + 1 columns.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.inference.network.whitened_network import RANK_TOLERANCE

Coordinates = Literal["row_space", "full"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """Rows of one fold as inputs of the first layer, in float64.

    `inputs` (n, r) are their coordinates, `base` (n, width) their pre-activation at theta_hat_1.
    `basis` (p + 1, r) has orthonormal columns, or is None where the inputs are (x, 1).
    """

    inputs: Tensor
    base: Tensor
    basis: Tensor | None


def first_layer(
    theta_hat_1: Tensor, x: Floats, *, trained: NDArray[np.bool_], coordinates: Coordinates
) -> FirstLayer:
    """Return standardised rows x (n, p) in the coordinates of the training rows.

    `theta_hat_1` is (width, p + 1). The basis spans the rows marked in `trained` (n,) alone. The
    part of other rows outside this span is multiplied by theta_hat_1 only.
    """
    augmented = torch.cat([torch.from_numpy(x), torch.ones(x.shape[0], 1, dtype=torch.float64)], 1)
    base = augmented @ theta_hat_1.double().T
    if coordinates == "full":
        return FirstLayer(augmented, base, None)
    _, singular, vt = torch.linalg.svd(augmented[torch.from_numpy(trained)], full_matrices=False)
    basis = vt[singular > RANK_TOLERANCE * singular[0]].T.contiguous()
    return FirstLayer(augmented @ basis, base, basis)


@dataclass(frozen=True, eq=False)
class Samples:
    """S samples that differ in rows, weights, labels and start, in float64 on the CPU.

    Rows of weight 0 are not trained on. `numbers` are the samples' numbers m. With `folds`, the
    fold of a cross-validation or -1 for a fit on all rows, they determine the random streams.
    """

    layer: NDArray[np.int64]  # which of the first layers a sample has, (S,)
    omega: Floats  # (S, n), of mean 2 over all rows
    labels: Floats  # (S, n)
    heads: Floats  # start of the output layer, its bias last, (S, q + 1)
    numbers: NDArray[np.int64]  # (S,)
    folds: NDArray[np.int64]  # (S,)
    n_rows: NDArray[np.int64]  # rows that are trained on, (S,)
    variances: Floats  # of the noise in the energy that SGHMC samples, (S,)

    def of(self, index: NDArray[np.int64]) -> "Samples":
        """Return the samples of these indices."""
        return Samples(*(getattr(self, name)[index] for name in self.__dataclass_fields__))
