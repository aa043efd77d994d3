r"""Scale moves that leave alone what the data determine about the weights (interweaving; Yu and Meng, 2011).

Moving s_l with z_l fixed changes every weight of the layer; moving it with theta_l fixed changes z_l, in so many
directions that the prior holds the scale tight. Here the weights' part in a fixed subspace P of k directions stays:

    s_l -> s_l e^d,   P z_l -> e^-d P z_l,   the rest of z_l fixed,

a change of variables with Jacobian e^(-k d), so that d has the density

    p(y | z', h') p(h') exp(-k d - |P z|^2 (e^(-2 d) - 1) / 2)

along the line, sampled by slices. P holds the directions of z in which f at the training inputs moves most, found in
warm-up. On 200 crystals of the demo (seed 4, where it was most needed; one run each) it took the effective draws of tau
and c1 from 24 and 19 to 104 and 115 of 2,800, those of c2 and c3 from 50 and 60 to 63 and 68.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bandgap.inference.network.joint_density import log_density
from bandgap.inference.network.partial_centring import gradient_pairs
from bandgap.inference.network.scale_moves import POINTS, slice_move
from bandgap.inference.network.scales import FreeScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

DIRECTIONS = 100  # at most, of every layer
MAX_ROWS = 1600  # gradients of which the directions are made
BRACKET = 3.0  # widths of a bracket, in 1 / sqrt(k): k directions alone leave d a standard deviation of 0.7 of that
SMALLEST = 1e-6  # share of the largest eigenvalue below which a direction is left out


def informed_directions(
    net: WhitenedNetwork, prior: FreeScalePrior, visited: Sequence[tuple[Layers, Tensor]]
) -> Layers:
    """Return for every sampled layer orthonormal columns (out in, k) that the data inform most, from visited states.

    They are the leading right singular vectors of the gradients of f by z_l at the training inputs, in units of the
    noise. A gradient is an outer product g h', so that the inner products of all are (G G') * (H H').
    """
    per_state = max(1, MAX_ROWS // (net.n_rows * visited[0][1].shape[0]))
    chosen = visited[-per_state:]
    pairs = [gradient_pairs(net, z, prior.scales(state)) for z, state in chosen]
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
    prior: FreeScalePrior,
    subspaces: Layers,
    generator: torch.Generator,
) -> tuple[Layers, Tensor]:
    """Move the scale of every sampled layer once, with its weights in the layer's subspace fixed."""
    if not subspaces:
        return z, state
    density = log_density(net, z, state, prior)
    for layer, basis in enumerate(subspaces):
        along = _Line(net, prior, z, state, layer, basis)
        width = BRACKET / math.sqrt(basis.shape[1])
        d, value = slice_move(along, density, width=width, generator=generator)
        density = value - along.volume(d)
        z, state = along.end(d)
    return z, state


class _Line:
    """Log density along one layer's move: called with d (chain, POINTS)."""

    def __init__(
        self,
        net: WhitenedNetwork,
        prior: FreeScalePrior,
        z: Layers,
        state: Tensor,
        layer: int,
        basis: Tensor,
    ) -> None:
        self._prior, self._z, self._state, self._layer, self._basis = prior, z, state, layer, basis
        flat = z[layer].flatten(1)
        inside = flat @ basis
        self._inside = (inside @ basis.T).reshape(z[layer].shape)
        self._outside = z[layer] - self._inside
        self._square = (inside.double() ** 2).sum(1)
        first = [self._outside, self._inside] if layer == 0 else [z[0]]
        self._projected = [net.project(part).repeat_interleave(POINTS, 0) for part in first]
        self._batch = net.repeated(POINTS)
        self._repeated = [z[0], *[q.repeat_interleave(POINTS, 0) for q in z[1:]]]
        self._parts = (
            [part.repeat_interleave(POINTS, 0) for part in (self._outside, self._inside)]
            if layer
            else []
        )

    def __call__(self, d: Tensor) -> Tensor:
        each = d.flatten()
        shrink = torch.exp(-each).to(self._z[0].dtype)[:, None, None]
        state = self._prior.with_layer_scaled(
            self._state.repeat_interleave(POINTS, 0), self._layer, each
        )
        z, projected = list(self._repeated), self._projected[0]
        if self._layer == 0:
            projected = self._projected[0] + shrink * self._projected[1]
        else:
            z[self._layer] = self._parts[0] + shrink * self._parts[1]
        values = log_density(self._batch, z, state, self._prior, projected=projected)
        return values.reshape(d.shape) + self.volume(d.T).T

    def volume(self, d: Tensor) -> Tensor:
        """Return the logarithm of the Jacobian and of the change of the prior of z, for d (..., chain)."""
        return -self._basis.shape[1] * d - 0.5 * self._square * torch.expm1(-2.0 * d)

    def end(self, d: Tensor) -> tuple[Layers, Tensor]:
        """Return z and the scales moved by d (chain,)."""
        z = list(self._z)
        z[self._layer] = self._outside + torch.exp(-d).to(z[0].dtype)[:, None, None] * self._inside
        return z, self._prior.with_layer_scaled(self._state, self._layer, d)
