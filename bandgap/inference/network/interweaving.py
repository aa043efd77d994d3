r"""Scale moves that keep what the data determine of the weights (interweaving; Yu and Meng, 2011).

Moving s_l with z_l fixed changes every weight of the layer. Moving it with theta_l fixed changes
z_l in so many directions that the prior keeps the scale nearly fixed. Here the part of the weights
in a fixed subspace P of k directions stays:

    s_l -> s_l e^d,   P z_l -> e^-d P z_l,   the remaining part of z_l fixed,

a change of variables with Jacobian e^(-k d), so that d has the density

    p(y | z', h') p(h') exp(-k d - |P z|^2 (e^(-2 d) - 1) / 2)

along the line, sampled by slices. P contains the directions of z in which f at the training inputs
moves most, found in warm-up.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bandgap.inference.network.joint_density import log_density
from bandgap.inference.network.partial_centring import gradient_pairs
from bandgap.inference.network.scale_moves import POINTS, slice_move
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

DIRECTIONS = 100  # at most, of every layer
MAX_ROWS = 1600  # gradients of which the directions are made
# widths of a bracket in 1 / sqrt(k); k directions alone give d a standard deviation of 0.7 of that
BRACKET = 3.0
SMALLEST = 1e-6  # share of the largest eigenvalue below which a direction is left out


def informed_directions(
    net: WhitenedNetwork, prior: ScalePrior, visited: Sequence[tuple[Layers, Tensor]]
) -> Layers:
    """Return orthonormal columns (out in, k) of the directions with most information, by layer.

    They are the leading right singular vectors of the gradients of f by z_l at the training inputs,
    in units of the noise, at the latest of the visited states. A gradient is an outer product g h',
    so that the inner products of all are (G G') * (H H').
    """
    n_states = max(1, MAX_ROWS // (net.n_rows * visited[0][1].shape[0]))
    pairs = [gradient_pairs(net, z, prior.scales(state)) for z, state in visited[-n_states:]]
    result = []
    for layer in range(len(net.shapes)):
        g = torch.cat([p[layer][0] for p in pairs])[:MAX_ROWS]
        h = torch.cat([p[layer][1] for p in pairs])[:MAX_ROWS]
        values, vectors = torch.linalg.eigh(((g @ g.T) * (h @ h.T)).double())
        keep = values > SMALLEST * values[-1]
        keep[: -min(DIRECTIONS, keep.numel())] = False
        weights = (vectors[:, keep] / values[keep].sqrt()).to(g.dtype)
        columns = torch.einsum("rk,ro,ri->oik", weights, g, h).flatten(0, 1)
        result.append(torch.linalg.qr(columns).Q)
    return result


def step_interwoven(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    subspaces: Layers,
    generator: torch.Generator,
) -> tuple[Layers, Tensor]:
    """Move the scale of every sampled layer once, with its weights in the layer's subspace fixed.

    The prior's scales must be free (`ScalePrior.scales_are_free`).
    """
    if not subspaces:
        return z, state
    density = log_density(net, z, state, prior)
    for layer, basis in enumerate(subspaces):
        line = _Line(net, prior, z, state, layer, basis)
        width = BRACKET / math.sqrt(basis.shape[1])
        d, value = slice_move(line, density, width=width, generator=generator)
        density = value - line.log_volume(d)
        z, state = line.end(d)
    return z, state


class _Line:
    """Log density along one layer's move: called with d (chain, POINTS)."""

    def __init__(
        self,
        net: WhitenedNetwork,
        prior: ScalePrior,
        z: Layers,
        state: Tensor,
        layer: int,
        basis: Tensor,
    ) -> None:
        self._prior = prior
        self._z = z
        self._state = state
        self._layer = layer
        self._basis = basis
        inside = z[layer].flatten(1) @ basis
        self._inside = (inside @ basis.T).reshape(z[layer].shape)
        self._outside = z[layer] - self._inside
        self._square = (inside.double() ** 2).sum(1)
        first = [self._outside, self._inside] if layer == 0 else [z[0]]
        self._projected = [net.project(part).repeat_interleave(POINTS, 0) for part in first]
        self._batch = net.repeated(POINTS)
        self._repeated_z = [z[0], *[q.repeat_interleave(POINTS, 0) for q in z[1:]]]
        upper = [self._outside, self._inside] if layer else []
        self._repeated_parts = [part.repeat_interleave(POINTS, 0) for part in upper]

    def __call__(self, d: Tensor) -> Tensor:
        flat = d.flatten()
        shrink = torch.exp(-flat).to(self._z[0].dtype)[:, None, None]
        repeated_state = self._state.repeat_interleave(POINTS, 0)
        state = self._prior.with_layer_scaled(repeated_state, self._layer, flat)
        z = list(self._repeated_z)
        projected = self._projected[0]
        if self._layer == 0:
            projected = self._projected[0] + shrink * self._projected[1]
        else:
            z[self._layer] = self._repeated_parts[0] + shrink * self._repeated_parts[1]
        values = log_density(self._batch, z, state, self._prior, projected=projected)
        return values.reshape(d.shape) + self.log_volume(d.T).T

    def log_volume(self, d: Tensor) -> Tensor:
        """Return the log of the Jacobian plus the change of the prior of z, for d (..., chain)."""
        return -self._basis.shape[1] * d - 0.5 * self._square * torch.expm1(-2.0 * d)

    def end(self, d: Tensor) -> tuple[Layers, Tensor]:
        """Return z and the scales moved by d (chain,)."""
        z = list(self._z)
        z[self._layer] = self._outside + torch.exp(-d).to(z[0].dtype)[:, None, None] * self._inside
        return z, self._prior.with_layer_scaled(self._state, self._layer, d)
