"""Slice sampling of the scales, with the whitened weights z fixed and the output layer integrated out (Neal, 2003).

One forward pass a proposal. Chains move together; brackets are fixed after warm-up and shrink towards the present
state. It complements the joint paths: what the data determine about sigma and the output layer's scale moves here at
once.
"""

import torch
from torch import Tensor

from bandgap.inference.joint_hmc import LARGEST_LOG, LARGEST_SIGNAL
from bandgap.inference.scales import ScalePrior, relative_scales, sigma_of
from bandgap.inference.whitened_network import Layers, WhitenedNetwork, hidden_features, integrate_output

MAX_SHRINKS = 30  # a bracket then is 1e-9 of its first width: the chain stays where it is


def step_scales(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    directions: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Slice-sample the scales once along each direction: `directions` (k, 2 + L), their lengths the bracket widths."""
    density = scales_log_density(net, z, state, prior)
    for direction in directions:
        level = density + torch.log(_uniform(density, generator))
        high = _uniform(density, generator)
        low = high - 1.0
        moving = torch.ones_like(density, dtype=torch.bool)
        start = state
        for _ in range(MAX_SHRINKS):
            at = low + (high - low) * _uniform(density, generator)
            proposal = start + at[:, None] * direction
            value = scales_log_density(net, z, proposal, prior)
            inside = moving & (value >= level)
            state = torch.where(inside[:, None], proposal, state)
            density = torch.where(inside, value, density)
            moving = moving & ~inside
            if not bool(moving.any()):
                break
            low, high = torch.where(moving & (at < 0), at, low), torch.where(moving & (at >= 0), at, high)
    return state


def scales_log_density(net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior) -> Tensor:
    """Return log p(y | z, scales) + log p(scales) of states (chain, 2 + L), -inf outside the range of numbers."""
    safe = state.clamp(-LARGEST_LOG, LARGEST_LOG)
    sigma, relative = sigma_of(safe), relative_scales(safe)
    rho = relative[:, -1] ** 2
    hidden = hidden_features(net, z, relative * sigma[:, None])
    signal = (rho[:, None, None] * hidden.features.double() ** 2).sum((1, 2))
    fine = (state == safe).all(-1) & (signal < LARGEST_SIGNAL)
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    value = integrate_output(net, hidden, rho, sigma).log_likelihood + prior.log_density(safe)
    return torch.where(fine & torch.isfinite(value), value, torch.full_like(value, -torch.inf))


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=torch.float64)
