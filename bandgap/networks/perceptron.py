"""The multilayer perceptron, as a pure function of a flat dict of parameters.

Layer l of L is h_l = relu(W_l h_(l-1) + b_l), the last one linear with one output: f(x; theta) in standardised units.
Parameters are named "weight.1", "bias.1", ... "weight.L", "bias.L"; theta_l means both of layer l.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.row_blocks import Rows, row_blocks

Params = dict[str, Tensor]

BLOCK_ROWS = (
    1024  # rows a pass of the Fisher information: 10 MB of inputs in float64 for 1,260 features
)


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of the network: number of input features, widths of the hidden layers, number of outputs."""

    n_features: int
    hidden: tuple[int, ...] = (128, 64)
    n_outputs: int = 1

    def __post_init__(self) -> None:
        if self.n_features < 1 or not self.hidden or min(self.hidden) < 1 or self.n_outputs < 1:
            raise ConfigError(
                f"network: {self.n_features} features, hidden widths {self.hidden}, {self.n_outputs} outputs. "
                "Accepted: at least one feature, one output and one hidden layer, each of width 1 or more."
            )

    @property
    def n_layers(self) -> int:
        """Number L of weight layers: hidden layers and the output."""
        return len(self.hidden) + 1

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter by name, in the fixed order weight.1, bias.1, ..., weight.L, bias.L."""
        widths = (self.n_features, *self.hidden, self.n_outputs)
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(1, self.n_layers + 1):
            shapes[f"weight.{layer}"] = (widths[layer], widths[layer - 1])
            shapes[f"bias.{layer}"] = (widths[layer],)
        return shapes

    @property
    def layer_sizes(self) -> tuple[int, ...]:
        """Number v_l of parameters of each layer, weights and biases together."""
        sizes = {name: math.prod(shape) for name, shape in self.shapes.items()}
        return tuple(sizes[f"weight.{i}"] + sizes[f"bias.{i}"] for i in range(1, self.n_layers + 1))


def layer_of(name: str) -> int:
    """Return the layer number (from 1) of a parameter name."""
    return int(name.rsplit(".", 1)[1])


def init_params(
    config: NetworkConfig, *, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> Params:
    """Draw Glorot-uniform weights and zero biases."""
    params: Params = {}
    for name, shape in config.shapes.items():
        if name.startswith("bias"):
            params[name] = torch.zeros(shape, dtype=dtype)
            continue
        limit = math.sqrt(6.0 / (shape[0] + shape[1]))
        params[name] = (2 * torch.rand(shape, generator=generator, dtype=dtype) - 1) * limit
    return params


def layers_of(params: Params) -> list[Tensor]:
    """Return parameters as one tensor (out, in + 1) a layer, the bias being the last column."""
    n_layers = layer_of(max(params, key=layer_of))
    return [
        torch.cat([params[f"weight.{i}"], params[f"bias.{i}"][:, None]], 1)
        for i in range(1, n_layers + 1)
    ]


def forward(
    params: Params, x: Tensor, *, dropout: float = 0.0, generator: torch.Generator | None = None
) -> Tensor:
    """Evaluate f(x; theta) for every row of `x` (n, features); leading dimensions of the parameters are kept.

    Parameters of shape (..., out, in) and (..., out) give values of shape (..., n), or (..., n, outputs) where there
    are several outputs: a batch of draws is one call. `dropout` is the share of hidden activations set to zero, drawn
    from the generator, the others being scaled up.
    """
    n_layers = layer_of(max(params, key=layer_of))
    h = x
    for layer in range(1, n_layers + 1):
        h = h @ params[f"weight.{layer}"].transpose(-1, -2) + params[f"bias.{layer}"].unsqueeze(-2)
        if layer < n_layers:
            h = torch.relu(h)
            if dropout > 0:
                kept = (
                    torch.rand(h.shape, generator=generator, dtype=h.dtype).to(h.device) >= dropout
                )
                h = h * kept / (1.0 - dropout)
    return h.squeeze(-1)


def hidden_features(params: Params, x: Tensor) -> Tensor:
    """Evaluate the last hidden layer, (..., n, q), from the parameters of the hidden layers alone."""
    h = x
    for layer in range(1, max(map(layer_of, params)) + 1):
        h = torch.relu(
            h @ params[f"weight.{layer}"].transpose(-1, -2) + params[f"bias.{layer}"].unsqueeze(-2)
        )
    return h


def hidden_in_double(params: Params, x: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Evaluate all hidden layers, (n, q) each, as numpy's products in double precision.

    In blocks of one number of rows (`foundation.fixed_blocks`) a row is summed in the same order wherever it stands,
    which products of tensors do not hold to.
    """
    found, h = [], x
    for layer in range(1, max(map(layer_of, params)) + 1):
        weight, bias = (params[f"{name}.{layer}"].double().numpy() for name in ("weight", "bias"))
        h = np.maximum(h @ weight.T + bias, 0.0)
        found.append(h)
    return found


@dataclass(frozen=True, eq=False)
class LayerSignals:
    """What a gradient of layer l is made of, at n inputs: h_(l-1) (n, in) and g_l = df / d(pre-activation) (n, out).

    df/dW_l = g_l h_(l-1)' and df/db_l = g_l.
    """

    inputs: Tensor
    slopes: Tensor


def layer_signals(params: Params, x: Tensor) -> list[LayerSignals]:
    """Return the signals of every layer, the first one first, at inputs `x` (n, features), by one backward pass.

    In float64, on the device of the parameters.
    """
    wide = {name: value.double() for name, value in params.items()}
    n_layers = layer_of(max(wide, key=layer_of))
    h, inputs, active = x.double(), [], []
    for layer in range(1, n_layers + 1):
        inputs.append(h)
        pre = h @ wide[f"weight.{layer}"].T + wide[f"bias.{layer}"]
        active.append(pre > 0)
        h = torch.relu(pre)
    g = torch.ones_like(h)
    signals: list[LayerSignals] = []
    for layer in range(n_layers, 0, -1):
        signals.insert(0, LayerSignals(inputs[layer - 1], g))
        if layer > 1:
            g = (g @ wide[f"weight.{layer}"]) * active[layer - 2]
    return signals


def layer_gradient_norms(params: Params, x: Tensor) -> Tensor:
    """Return alpha_l(x), the squared norm of the gradient of f(x; theta) by the parameters of layer l, shape (n, L).

    alpha_l = |g_l|^2 (|h_(l-1)|^2 + 1) (Abba 2023, section 2.3.3; biases included). Computed in float64.
    """
    signals = layer_signals(params, x)
    return torch.stack([(s.slopes**2).sum(1) * ((s.inputs**2).sum(1) + 1) for s in signals], 1)


def layer_variances(params: Params, sd: Params, x: Tensor) -> Tensor:
    """Return the variance (n, L) that each layer gives f(x; theta), linearised, where weights vary independently by sd.

    It is sum_k sd_k^2 (df / dtheta_k)^2 over the parameters of layer l, biases included; in float64.
    """
    squared = {name: value.double() ** 2 for name, value in sd.items()}
    columns = []
    for layer, signal in enumerate(layer_signals(params, x), start=1):
        by_input = signal.inputs**2 @ squared[f"weight.{layer}"].T + squared[f"bias.{layer}"]
        columns.append((signal.slopes**2 * by_input).sum(1))
    return torch.stack(columns, 1)


def fisher_diagonal(
    params: Params,
    x: Rows,
    *,
    noise_variance: float,
    block_rows: int = BLOCK_ROWS,
    progress: Progress = no_progress,
) -> Params:
    """Return F_k of every parameter at standardised rows `x` (n, p), in float64, shaped like the parameters.

    F_k = (1 / sigma^2) sum_j (df(x_j) / dtheta_k)^2 is the diagonal Fisher information at a point estimate, for y ~
    N(f(x; theta), sigma^2), summed over the source's rows: the curvature by which a source-weighted prior holds a
    weight (Kirkpatrick et al. 2017, elastic weight consolidation). No gradient of a single row is formed: for a dense
    layer sum_j (df_j/dW)^2 = (g^2)' (h^2), g being the gradient by the layer's pre-activation (n, out) and h its input
    (n, in). Raises ConfigError at a noise variance of 0 or less, and at blocks of no rows.
    """
    if not noise_variance > 0 or block_rows < 1:
        raise ConfigError(
            f"Fisher information: noise variance {noise_variance}, {block_rows} rows a block. Accepted: a variance "
            "above 0 in squared standardised units, and at least one row."
        )
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in params.items()}
    done = 0
    for rows in row_blocks(x, block_rows):
        for layer, signal in enumerate(layer_signals(params, rows), start=1):
            squared = signal.slopes**2
            total[f"weight.{layer}"] += squared.T @ signal.inputs**2
            total[f"bias.{layer}"] += squared.sum(0)
        done += rows.shape[0]
        progress(Update("Fisher information of the source", done, x.shape[0]))
    return {name: value / noise_variance for name, value in total.items()}
