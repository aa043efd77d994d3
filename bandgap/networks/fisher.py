r"""Diagonal Fisher information of a network's parameters at a point estimate, for y ~ N(f(x; theta), sigma^2).

F_k = (1 / sigma^2) sum_j (df(x_j) / dtheta_k)^2, summed over the source's rows. It is the curvature
by which a source-weighted prior holds a weight (Kirkpatrick et al. 2017, elastic weight consolidation).
"""

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.perceptron import Params, layer_signals

BLOCK_ROWS = 1024  # rows a pass: 10 MB of inputs in float64 for 1,260 features


def fisher_diagonal(
    params: Params,
    x: Tensor,
    *,
    noise_variance: float,
    block_rows: int = BLOCK_ROWS,
    progress: Progress = no_progress,
) -> Params:
    """Return F_k of every parameter at standardised rows `x` (n, p), in float64, shaped like the parameters.

    No gradient of a single row is formed: for a dense layer sum_j (df_j/dW)^2 = (g^2)' (h^2), g being the gradient by
    the layer's pre-activation (n, out) and h its input (n, in). Raises ConfigError at a noise variance of 0 or less,
    and at blocks of no rows.
    """
    if not noise_variance > 0 or block_rows < 1:
        raise ConfigError(
            f"Fisher information: noise variance {noise_variance}, {block_rows} rows a block. Accepted: a variance "
            "above 0 in squared standardised units, and at least one row."
        )
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in params.items()}
    done = 0
    for rows in torch.split(x, block_rows):
        for layer, signal in enumerate(layer_signals(params, rows), start=1):
            squared = signal.slopes**2
            total[f"weight.{layer}"] += squared.T @ signal.inputs**2
            total[f"bias.{layer}"] += squared.sum(0)
        done += rows.shape[0]
        progress(Update("Fisher information of the source", done, x.shape[0]))
    return {name: value / noise_variance for name, value in total.items()}
