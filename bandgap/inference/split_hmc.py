r"""Hamiltonian Monte Carlo of whitened weights given the scales, the prior's part of the motion solved exactly.

The Hamiltonian -log p(y | z) + |z|^2 / 2 + |v|^2 / 2 is split into the prior's, whose flow is the rotation
(z, v) -> (z cos e + v sin e, v cos e - z sin e), and the likelihood's, whose flow is the kick v -> v + e grad log p(y | z)
(Shahbaba, Lan, Johnson and Neal, 2014). The many directions that the data do not see then cost no accuracy at any step size.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.whitened_network import (
    Layers,
    WhitenedNetwork,
    gradient,
    hidden_features,
    integrate_output,
)

DIVERGENCE_ENERGY = 1000.0


@dataclass(frozen=True, eq=False)
class Transition:
    """What one transition did, per chain: accept probability, accepted, energy error, divergent (all of shape (chain,))."""

    accept: Tensor
    accepted: Tensor
    error: Tensor
    divergent: Tensor


def step_z(
    net: WhitenedNetwork,
    z: Layers,
    relative: Tensor,
    sigma: Tensor,
    *,
    step: float,
    n_steps: int,
    generator: torch.Generator,
) -> tuple[Layers, Transition]:
    """Make one transition of z at s_l / sigma `relative` (chain, L) and `sigma` (chain,), in `n_steps` steps of `step` radians."""
    v = [torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype) for q in z]
    cos, sin = math.cos(step), math.sin(step)
    pull, value = _force(net, z, relative, sigma)
    start = 0.5 * (square_norm(z) + square_norm(v)) - value
    q = z
    for _ in range(n_steps):
        v = [w + 0.5 * step * g for w, g in zip(v, pull, strict=True)]
        q, v = (
            [cos * a + sin * w for a, w in zip(q, v, strict=True)],
            [cos * w - sin * a for a, w in zip(q, v, strict=True)],
        )
        pull, value = _force(net, q, relative, sigma)
        v = [w + 0.5 * step * g for w, g in zip(v, pull, strict=True)]
    error = 0.5 * (square_norm(q) + square_norm(v)) - value - start
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(torch.isfinite(error), torch.exp(-error.clamp(min=0.0)), torch.zeros_like(error))
    accepted = torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float64) < accept
    keep = accepted[:, None, None]
    return [torch.where(keep, a, b) for a, b in zip(q, z, strict=True)], Transition(accept, accepted, error, divergent)


def square_norm(z: Layers) -> Tensor:
    """Return |z|^2 of every chain, (chain,), in float64."""
    return torch.stack([(q.double() ** 2).sum((1, 2)) for q in z]).sum(0)


def _force(net: WhitenedNetwork, z: Layers, relative: Tensor, sigma: Tensor) -> tuple[Layers, Tensor]:
    scales = relative * sigma[:, None]
    hidden = hidden_features(net, z, scales)
    output = integrate_output(net, hidden, relative[:, -1] ** 2, sigma)
    return gradient(net, z, scales, hidden, output, sigma), output.log_likelihood
