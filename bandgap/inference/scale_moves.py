"""Slice sampling of the scales, with the whitened weights z fixed and the output layer integrated out (Neal, 2003).

The log density of (log t, log sigma, w) given z is log p(y | z, scales) + log p(scales): one forward pass a proposal. Chains are
moved together; brackets are fixed at a multiple of what warm-up found and shrink towards the present state.
"""

import torch
from torch import Tensor

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
        origin = state
        for _ in range(MAX_SHRINKS):
            at = low + (high - low) * _uniform(density, generator)
            proposal = origin + at[:, None] * direction
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
    """Return log p(y | z, scales) + log p(scales) of states (chain, 2 + L), -inf where it is not finite."""
    sigma, relative = sigma_of(state), relative_scales(state)
    hidden = hidden_features(net, z, relative * sigma[:, None])
    finite = torch.isfinite(hidden.features).all(-1).all(-1) & torch.isfinite(relative).all(-1)
    if not bool(finite.all()):
        return torch.full_like(sigma, -torch.inf)
    value = integrate_output(net, hidden, relative[:, -1] ** 2, sigma).log_likelihood + prior.log_density(state)
    return torch.where(torch.isfinite(value), value, torch.full_like(value, -torch.inf))


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=torch.float64)
