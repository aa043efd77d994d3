"""The multilayer perceptron, as a pure function of a flat dict of parameters.

Layer l of L is h_l = relu(W_l h_(l-1) + b_l); the last one is linear with one output. f(x; theta)
is in standardised units. Parameters are named "weight.1", "bias.1", ... "weight.L", "bias.L";
theta_l means both of layer l.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.config import Count, OneOrMore, Settings
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.row_blocks import Rows, row_blocks

Params = dict[str, Tensor]

# Rows in one pass of the Fisher information: 10 MB of inputs in float64 for 1,260 features.
CHUNK_ROWS = 1024


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Shape of the network: numbers of features and outputs, and widths of the hidden layers."""

    n_features: Count
    hidden: OneOrMore[Count] = (128, 64)
    n_outputs: Count = 1

    @property
    def n_layers(self) -> int:
        """Number L of weight layers: hidden layers and the output."""
        return len(self.hidden) + 1

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter, in the order weight.1, bias.1, ..., weight.L, bias.L."""
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
    """Return random Glorot-uniform weights and zero biases."""
    params: Params = {}
    for name, shape in config.shapes.items():
        if name.startswith("bias"):
            params[name] = torch.zeros(shape, dtype=dtype)
            continue
        limit = math.sqrt(6.0 / (shape[0] + shape[1]))
        params[name] = (2 * torch.rand(shape, generator=generator, dtype=dtype) - 1) * limit
    return params


def layers_of(params: Params) -> list[Tensor]:
    """Return the parameters of each layer as one tensor (out, in + 1) with the bias last."""
    n_layers = layer_of(max(params, key=layer_of))
    return [
        torch.cat([params[f"weight.{i}"], params[f"bias.{i}"][:, None]], 1)
        for i in range(1, n_layers + 1)
    ]


def forward(
    params: Params, x: Tensor, *, dropout: float = 0.0, generator: torch.Generator | None = None
) -> Tensor:
    """Return f(x; theta) for every row of x.

    Parameters
    ----------
    params
        Weights (..., out, in) and biases (..., out). Leading axes, such as those of draws, are
        kept: the values have shape (..., n), or (..., n, outputs) for several outputs.
    x
        Standardised features (n, p).
    dropout, generator
        Share of hidden activations set to zero at random; the others are scaled up.
    """
    n_layers = layer_of(max(params, key=layer_of))
    h = x
    for layer in range(1, n_layers + 1):
        h = h @ params[f"weight.{layer}"].transpose(-1, -2) + params[f"bias.{layer}"].unsqueeze(-2)
        if layer < n_layers:
            h = torch.relu(h)
            if dropout > 0:
                uniform = torch.rand(h.shape, generator=generator, dtype=h.dtype).to(h.device)
                h = h * (uniform >= dropout) / (1.0 - dropout)
    return h.squeeze(-1)


def hidden_features(params: Params, x: Tensor) -> Tensor:
    """Return the last hidden layer (..., n, q), from the parameters of the hidden layers only."""
    h = x
    for layer in range(1, max(map(layer_of, params)) + 1):
        h = torch.relu(
            h @ params[f"weight.{layer}"].transpose(-1, -2) + params[f"bias.{layer}"].unsqueeze(-2)
        )
    return h


@dataclass(frozen=True, eq=False)
class LayerSignals:
    """The factors of the gradient by layer l at n inputs: df/dW_l = g_l h_(l-1)', df/db_l = g_l.

    `inputs` are h_(l-1) (n, in), `slopes` are g_l = df / d(pre-activation) (n, out).
    """

    inputs: Tensor
    slopes: Tensor


def layer_signals(params: Params, x: Tensor) -> list[LayerSignals]:
    """Return the signals of every layer, the first one first, at inputs x (n, p).

    They are computed by one backward pass in float64 on the device of the parameters.
    """
    wide = {name: value.double() for name, value in params.items()}
    n_layers = layer_of(max(wide, key=layer_of))
    h = x.double()
    inputs = []
    is_active = []
    for layer in range(1, n_layers + 1):
        inputs.append(h)
        pre = h @ wide[f"weight.{layer}"].T + wide[f"bias.{layer}"]
        is_active.append(pre > 0)
        h = torch.relu(pre)
    g = torch.ones_like(h)
    signals: list[LayerSignals] = []
    for layer in range(n_layers, 0, -1):
        signals.insert(0, LayerSignals(inputs[layer - 1], g))
        if layer > 1:
            g = (g @ wide[f"weight.{layer}"]) * is_active[layer - 2]
    return signals


def layer_gradient_norms(params: Params, x: Tensor) -> Tensor:
    """Return alpha_l(x) (n, L), the squared norm of the gradient of f by the parameters of layer l.

    alpha_l = |g_l|^2 (|h_(l-1)|^2 + 1) (Abba 2023, section 2.3.3), biases included, in float64.
    """
    signals = layer_signals(params, x)
    return torch.stack([(s.slopes**2).sum(1) * ((s.inputs**2).sum(1) + 1) for s in signals], 1)


def layer_variances(params: Params, sd: Params, x: Tensor) -> Tensor:
    """Return the variance (n, L) of f by each layer, linearised, for independent weights.

    It is sum_k sd_k^2 (df / dtheta_k)^2 over the parameters of layer l with biases, in float64.
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
    chunk_rows: int = CHUNK_ROWS,
    progress: Progress = no_progress,
) -> Params:
    """Return the diagonal Fisher information of every parameter, in float64.

    F_k = (1 / sigma^2) sum_j (df(x_j) / dtheta_k)^2 at a point estimate, for y ~ N(f(x; theta),
    sigma^2), summed over the rows. A source-weighted prior uses it as the precision of a weight
    (Kirkpatrick et al. 2017, elastic weight consolidation). Gradients of single rows are not
    computed: for a dense layer sum_j (df_j/dW)^2 = (g^2)' (h^2), where g is the gradient by the
    layer's pre-activation (n, out) and h its input (n, in).

    Parameters
    ----------
    params
        Weights.
    x
        Standardised rows (n, p).
    noise_variance
        sigma^2, in squared standardised units.
    chunk_rows
        Rows in one pass.

    Raises
    ------
    ConfigError
        If the noise variance is not above 0, or `chunk_rows` is below 1.
    """
    if not noise_variance > 0 or chunk_rows < 1:
        raise ConfigError(
            f"Fisher information: noise variance {noise_variance}, {chunk_rows} rows a block. "
            "Accepted: a variance above 0 in squared standardised units, and at least one row."
        )
    total = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in params.items()}
    done = 0
    for rows in row_blocks(x, chunk_rows):
        for layer, signal in enumerate(layer_signals(params, rows), start=1):
            squared = signal.slopes**2
            total[f"weight.{layer}"] += squared.T @ signal.inputs**2
            total[f"bias.{layer}"] += squared.sum(0)
        done += rows.shape[0]
        progress(Update("Fisher information of the source", done, x.shape[0]))
    return {name: value / noise_variance for name, value in total.items()}
