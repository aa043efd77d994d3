r"""Masked autoregressive flows, several of one shape at a time.

A flow maps data to a base space, u = T(x), and log p(x) = log h(T(x)) + log|det dT/dx|. Here T is a
sequence of blocks. A block is a masked autoregressive map (Germain et al. 2015; Papamakarios et al.
2017) followed by a batch normalisation, whose log-determinants add:

    [mu, a] = net(x),   u_i = (x_i - mu_i) exp(-a_i),   log|det| = -sum_i a_i
    v = (u - m) / sqrt(s^2 + eps) exp(g) + b,   log|det| = sum_i (g_i - log(s_i^2 + eps) / 2)

mu_i and a_i depend on the coordinates before i in the order of the block only. The order is
reversed from one block to the next. Every tensor has a leading axis E of independent flows.
"""

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from bandgap.foundation.config import Count, Settings
from bandgap.networks.perceptron import Params

EPSILON = 1e-5  # added to the variance in the batch normalisation
LARGEST_LOG_SCALE = 5.0  # bound of a_i


@dataclass(frozen=True)
class FlowConfig(Settings):
    """Shape of a flow: dimension of the data, number of blocks, width of the two hidden layers."""

    n_features: Count
    n_blocks: Count = 3
    width: Count = 64

    def order(self, block: int) -> list[int]:
        """Return the position of every coordinate, from 1, in the order of a block."""
        positions = list(range(1, self.n_features + 1))
        return positions if block % 2 == 0 else positions[::-1]


@dataclass(frozen=True, eq=False)
class BatchMoments:
    """Mean and variance (E, D) of the batch normalisation of every block."""

    means: tuple[Tensor, ...]
    variances: tuple[Tensor, ...]


@cache
def masks(config: FlowConfig, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the masks of the three layers of a block: 1 where a weight is allowed, else 0.

    A hidden unit of degree d sees coordinates at positions up to d; the outputs for a coordinate
    see hidden units of a degree strictly below its position. The masks have shapes (width, D),
    (width, width) and (2 D, width).
    """
    n_features = config.n_features
    positions = torch.tensor(config.order(block))
    if n_features == 1:
        hidden = torch.zeros(config.width, dtype=torch.long)
    else:
        hidden = 1 + torch.arange(config.width) % (n_features - 1)
    outputs = torch.cat([positions, positions])
    first = hidden[:, None] >= positions[None, :]
    second = hidden[:, None] >= hidden[None, :]
    last = outputs[:, None] > hidden[None, :]
    return first.double(), second.double(), last.double()


def init_flows(config: FlowConfig, *, n_flows: int, generator: torch.Generator) -> Params:
    """Return random parameters of `n_flows` flows that start near the identity, in float64.

    Hidden layers are uniform with the bound 1 / sqrt(inputs); the last layer is a hundredth of
    that, with biases of zero.
    """
    params: Params = {}

    def uniform(*shape: int, bound: float) -> Tensor:
        drawn = torch.rand(n_flows, *shape, generator=generator, dtype=torch.float64)
        return (2 * drawn - 1) * bound

    n_features = config.n_features
    width = config.width
    for block in range(config.n_blocks):
        of_input = 1 / math.sqrt(n_features)
        of_hidden = 1 / math.sqrt(width)
        params[f"weight.{block}.1"] = uniform(width, n_features, bound=of_input)
        params[f"bias.{block}.1"] = uniform(width, bound=of_input)
        params[f"weight.{block}.2"] = uniform(width, width, bound=of_hidden)
        params[f"bias.{block}.2"] = uniform(width, bound=of_hidden)
        params[f"weight.{block}.3"] = uniform(2 * n_features, width, bound=0.01 * of_hidden)
        params[f"bias.{block}.3"] = torch.zeros(n_flows, 2 * n_features, dtype=torch.float64)
        params[f"log_scale.{block}"] = torch.zeros(n_flows, n_features, dtype=torch.float64)
        params[f"shift.{block}"] = torch.zeros(n_flows, n_features, dtype=torch.float64)
    return params


def shift_and_log_scale(
    params: Params, config: FlowConfig, block: int, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return mu and a, (E, n, D) each, of a block at its input x (E, n, D)."""
    hidden = x
    for layer, mask in enumerate(masks(config, block), start=1):
        weight = params[f"weight.{block}.{layer}"] * mask
        hidden = torch.baddbmm(
            params[f"bias.{block}.{layer}"][:, None, :], hidden, weight.transpose(1, 2)
        )
        if layer < 3:
            hidden = torch.tanh(hidden)
    shift, raw_log_scale = torch.tensor_split(hidden, 2, dim=-1)
    return shift, LARGEST_LOG_SCALE * torch.tanh(raw_log_scale / LARGEST_LOG_SCALE)


def weighted_moments(x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weighted mean and variance (E, D) of rows (E, n, D); weights (E, n) sum to 1."""
    mean = (weights[:, :, None] * x).sum(1)
    variance = (weights[:, :, None] * (x - mean[:, None, :]) ** 2).sum(1)
    return mean, variance


def _normalise(
    params: Params, block: int, x: Tensor, mean: Tensor, variance: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the normalised rows (E, n, D) and the log-determinant (E,) of a normalisation."""
    log_scale = params[f"log_scale.{block}"] - 0.5 * torch.log(variance + EPSILON)
    out = (x - mean[:, None, :]) * torch.exp(log_scale)[:, None, :]
    return out + params[f"shift.{block}"][:, None, :], log_scale.sum(-1)


def _passed(
    params: Params,
    config: FlowConfig,
    x: Tensor,
    *,
    weights: Tensor | None,
    moments: BatchMoments | None,
) -> tuple[Tensor, Tensor, BatchMoments]:
    """Return T(x), log|det| and the moments that the normalisations used."""
    out = x.expand(params["shift.0"].shape[0], -1, -1) if x.ndim == 2 else x
    log_det = torch.zeros(out.shape[:2], dtype=out.dtype)
    means: list[Tensor] = []
    variances: list[Tensor] = []
    for block in range(config.n_blocks):
        shift, log_scale = shift_and_log_scale(params, config, block, out)
        out = (out - shift) * torch.exp(-log_scale)
        if moments is None:
            assert weights is not None
            mean, variance = weighted_moments(out, weights)
        else:
            mean = moments.means[block]
            variance = moments.variances[block]
        out, log_det_of_norm = _normalise(params, block, out, mean, variance)
        log_det = log_det - log_scale.sum(-1) + log_det_of_norm[:, None]
        means.append(mean)
        variances.append(variance)
    return out, log_det, BatchMoments(tuple(means), tuple(variances))


def training_pass(
    params: Params, config: FlowConfig, x: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Return T(x) (E, n, D) and log|det| (E, n) with the weighted moments of these rows.

    Rows depend on each other in this pass, so that the result is no density: it is for the loss of
    a training step.

    Parameters
    ----------
    x
        Rows (n, D) for all flows, or (E, n, D).
    weights
        Weights of the rows (E, n), which sum to 1 for every flow.
    """
    u, log_det, _ = _passed(params, config, x, weights=weights, moments=None)
    return u, log_det


def refreshed_moments(
    params: Params, config: FlowConfig, x: Tensor, weights: Tensor
) -> BatchMoments:
    """Return the exact moments of every normalisation over rows, one block after the other.

    Running averages lag behind the parameters when there is one update an epoch; then the density
    of an evaluation is that of another flow. Arguments are those of `training_pass`.
    """
    with torch.no_grad():
        return _passed(params, config, x, weights=weights, moments=None)[2]


def transform(
    params: Params, config: FlowConfig, moments: BatchMoments, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return T(x) (E, n, D) and log|det dT/dx| (E, n) of rows x, (n, D) or (E, n, D)."""
    u, log_det, _ = _passed(params, config, x, weights=None, moments=moments)
    return u, log_det


def inverse(params: Params, config: FlowConfig, moments: BatchMoments, u: Tensor) -> Tensor:
    """Return x with T(x) = u, (E, n, D). An autoregressive block needs D passes."""
    out = u
    for block in reversed(range(config.n_blocks)):
        variance = moments.variances[block]
        log_scale = params[f"log_scale.{block}"] - 0.5 * torch.log(variance + EPSILON)
        out = (out - params[f"shift.{block}"][:, None, :]) * torch.exp(-log_scale)[:, None, :]
        out = out + moments.means[block][:, None, :]
        out = _inverse_of_block(params, config, block, out)
    return out


def _inverse_of_block(params: Params, config: FlowConfig, block: int, u: Tensor) -> Tensor:
    x = torch.zeros_like(u)
    order = config.order(block)
    for position in range(1, config.n_features + 1):
        i = order.index(position)
        shift, log_scale = shift_and_log_scale(params, config, block, x)
        x[:, :, i] = u[:, :, i] * torch.exp(log_scale[:, :, i]) + shift[:, :, i]
    return x
