r"""What a source's output layer was learned from: the moments of its last hidden features on the source's rows.

With the features H (n, q) centred by their mean, the output weights given the hidden layers have the covariance
sigma^2 (H'H + R)^-1 (Abba 2023, section 3.2; R is the penalty of the source's own fit): only H'H, n and the residual
variance leave the source, never its rows.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.networks.perceptron import Params, hidden_features, layer_of
from bandgap.networks.row_blocks import Rows, row_blocks

ROWS_PER_BLOCK = 4096  # rows whose features exist at once

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Moments of the last hidden features of n source rows, and the source's residual variance in standardised gaps^2.

    Raises InputError where shapes do not fit.
    """

    mean: Floats  # (q,)
    scatter: Floats  # (q, q): sum over rows of (h - mean)(h - mean)'
    n: int
    residual_variance: float

    def __post_init__(self) -> None:
        q = self.mean.shape[0]
        if self.scatter.shape != (q, q) or self.n < 1:
            raise InputError(
                f"feature statistics: mean {self.mean.shape}, scatter {self.scatter.shape}, {self.n} rows. "
                "Accepted: (q,), (q, q) and at least one row."
            )

    @property
    def sd(self) -> Floats:
        """Standard deviation of every feature over the source's rows, (q,)."""
        return np.sqrt(np.diag(self.scatter) / self.n)


def feature_statistics(params: Params, x: Rows, *, residual_variance: float) -> FeatureStatistics:
    """Return the statistics of the last hidden features at standardised rows x (n, p), in float64, in blocks."""
    hidden = hidden_layers(params)
    q = hidden[f"bias.{max(map(layer_of, hidden))}"].shape[0]
    total, square = torch.zeros(q, dtype=torch.float64), torch.zeros(q, q, dtype=torch.float64)
    first: Tensor | None = None
    for block in row_blocks(x, ROWS_PER_BLOCK):
        with torch.no_grad():
            h = hidden_features(hidden, block).double().cpu()
        first = (
            h.mean(0) if first is None else first
        )  # a shift near the mean, so that nothing cancels
        total += (h - first).sum(0)
        square += (h - first).T @ (h - first)
    assert first is not None
    n = x.shape[0]
    scatter = square - torch.outer(total, total) / n
    return FeatureStatistics((first + total / n).numpy(), scatter.numpy(), n, residual_variance)


def hidden_layers(params: Params) -> Params:
    """Return the parameters of all layers but the last, which is the output layer."""
    last = max(map(layer_of, params))
    return {name: value for name, value in params.items() if layer_of(name) < last}
