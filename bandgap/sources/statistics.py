r"""Moments of the last hidden features of a source on its training rows.

With the features H (n, q) centred by their mean, the output weights given the hidden layers have
the covariance sigma^2 (H'H + R)^-1 (Abba 2023, section 3.2), where R is the penalty of the source's
own fit. The source stores only H'H, n and the residual variance, not its rows.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.networks.perceptron import Params, hidden_features, layer_of
from bandgap.networks.row_blocks import Rows, row_blocks

# Rows whose features are in memory at a time.
ROWS_PER_CHUNK = 4096

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Moments of the last hidden features of n source rows.

    Parameters
    ----------
    mean
        Mean (q,).
    scatter
        Sum over rows of (h - mean)(h - mean)', (q, q).
    n
        Number of rows.
    residual_variance
        Residual variance of the source, in squared standardised gaps.

    Raises
    ------
    InputError
        If the shapes do not match.
    """

    mean: Floats
    scatter: Floats
    n: int
    residual_variance: float

    def __post_init__(self) -> None:
        q = self.mean.shape[0]
        if self.scatter.shape != (q, q) or self.n < 1:
            raise InputError(
                f"feature statistics: mean {self.mean.shape}, scatter {self.scatter.shape}, "
                f"{self.n} rows. Accepted: (q,), (q, q) and at least one row."
            )

    @property
    def sd(self) -> Floats:
        """Standard deviation of every feature over the source's rows, (q,)."""
        return np.sqrt(np.diag(self.scatter) / self.n)


def feature_statistics(params: Params, x: Rows, *, residual_variance: float) -> FeatureStatistics:
    """Return the statistics of the last hidden features at standardised rows x (n, p)."""
    hidden = hidden_layers(params)
    q = hidden[f"bias.{max(map(layer_of, hidden))}"].shape[0]
    total = torch.zeros(q, dtype=torch.float64)
    square = torch.zeros(q, q, dtype=torch.float64)
    # A shift near the mean avoids cancellation.
    shift: Tensor | None = None
    for chunk in row_blocks(x, ROWS_PER_CHUNK):
        with torch.no_grad():
            h = hidden_features(hidden, chunk).double().cpu()
        shift = h.mean(0) if shift is None else shift
        total += (h - shift).sum(0)
        square += (h - shift).T @ (h - shift)
    assert shift is not None
    n = x.shape[0]
    scatter = square - torch.outer(total, total) / n
    return FeatureStatistics((shift + total / n).numpy(), scatter.numpy(), n, residual_variance)


def hidden_layers(params: Params) -> Params:
    """Return the parameters of all layers but the output layer."""
    last = max(map(layer_of, params))
    return {name: value for name, value in params.items() if layer_of(name) < last}
