"""Slice sampling of the scales, with the whitened weights z fixed and the output layer integrated out.

Chains move together; brackets are fixed after warm-up. It complements the joint paths: what the data determine about a
scale given z moves here at once.
"""

import torch
from torch import Tensor

from bandgap.inference.joint_hmc import LARGEST_LOG, LARGEST_SIGNAL, signal
from bandgap.inference.scales import ScalePrior
from bandgap.inference.slices import POINTS, slice_move
from bandgap.inference.whitened_network import Layers, WhitenedNetwork, hidden_features, integrate_output


def step_scales(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    directions: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Slice-sample the scales once along each direction: `directions` (k, width), their lengths the bracket widths."""
    projected = net.project(z[0])
    density = scales_log_density(net, z, state, prior, projected=projected)
    repeated = [z[0], *[q.repeat_interleave(POINTS, 0) for q in z[1:]]]
    wide, batch = projected.repeat_interleave(POINTS, 0), net.repeated(POINTS)
    for direction in directions:
        start = state

        def along(at: Tensor, start: Tensor = start, direction: Tensor = direction) -> Tensor:
            proposals = (start[:, None] + at[..., None] * direction).flatten(0, 1)
            return scales_log_density(batch, repeated, proposals, prior, projected=wide).reshape(at.shape)

        at, density = slice_move(along, density, width=1.0, generator=generator)
        state = start + at[:, None] * direction
    return state


def scales_log_density(
    net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior, *, projected: Tensor | None = None
) -> Tensor:
    """Return log p(y | z, scales) + log p(scales) of states (chain, width), -inf outside the range of numbers.

    `projected` is `net.project(z[0])` where it is known already.
    """
    safe = state.clamp(-LARGEST_LOG, LARGEST_LOG)
    scales = prior.scales(safe)
    hidden = hidden_features(net, z, scales, projected=projected)
    fine = (state == safe).all(-1) & (signal(hidden, scales.rho) < LARGEST_SIGNAL)
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    value = integrate_output(net, hidden, scales).log_likelihood + prior.log_density(safe)
    return torch.where(fine & torch.isfinite(value), value, torch.full_like(value, -torch.inf))
