"""Slice sampling of the scales, with the whitened weights z fixed and the output layer integrated out.

Chains move together; brackets are fixed after warm-up. It complements the joint paths: what the data determine about a
scale given z moves here at once.
"""

import torch
from torch import Tensor

from bandgap.inference.joint_hmc import log_density
from bandgap.inference.scales import ScalePrior
from bandgap.inference.slices import POINTS, slice_move
from bandgap.inference.whitened_network import Layers, WhitenedNetwork


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
    density = log_density(net, z, state, prior, projected=projected)
    repeated = [z[0], *[q.repeat_interleave(POINTS, 0) for q in z[1:]]]
    wide, batch = projected.repeat_interleave(POINTS, 0), net.repeated(POINTS)
    for direction in directions:
        start = state

        def along(at: Tensor, start: Tensor = start, direction: Tensor = direction) -> Tensor:
            proposals = (start[:, None] + at[..., None] * direction).flatten(0, 1)
            return log_density(batch, repeated, proposals, prior, projected=wide).reshape(at.shape)

        at, density = slice_move(along, density, width=1.0, generator=generator)
        state = start + at[:, None] * direction
    return state
