"""Slice sampling of the scales, with the whitened weights z fixed and the output layer integrated out.

Chains move together; brackets are fixed after warm-up. It complements the joint paths: what the data determine about a
scale given z moves here at once.
"""

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.joint_density import log_density
from bandgap.inference.lean_density import LeanDensity, can_be_lean, of_chain
from bandgap.inference.scales import Floats, ScalePrior
from bandgap.inference.slices import POINTS, slice_move, slice_one
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
    if can_be_lean(net):
        return _step_each(net, z, state, prior, directions, generator)
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


def _step_each(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    directions: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Do it for one chain after the other on a CPU: fewer points are evaluated, each at a third of the time."""
    ends = []
    for chain, state_of_chain in enumerate(state.numpy()):
        density, at = LeanDensity(of_chain(net, chain), prior), state_of_chain
        density.place([q[chain] for q in z])
        value = density(at)
        for direction in directions.numpy():

            def along(d: float, start: Floats = at, direction: Floats = direction) -> float:
                return density(start + d * direction)  # noqa: B023 (called before the next chain's turn)

            d, value = slice_one(along, value, width=1.0, generator=generator)
            at = at + d * direction
        ends.append(at)
    return torch.from_numpy(np.stack(ends))
