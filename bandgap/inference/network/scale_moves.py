"""Slice sampling of the scales, with the weights z fixed and the output layer integrated out.

On a CPU chains move one after the other, elsewhere together; brackets are fixed after warm-up. It complements the joint
paths: what the data determine about a scale given the weights moves here at once.
"""

import torch
from torch import Tensor

from bandgap.inference.network.joint_density import log_density
from bandgap.inference.network.lean_density import LeanDensity, can_be_lean, of_chain
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.slices import POINTS, slice_move, slice_one
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


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
        ends = []
        for chain, h in enumerate(state.numpy()):
            lean = LeanDensity(of_chain(net, chain), prior)
            lean.place([q[chain] for q in z])
            ends.append(torch.from_numpy(_slices(lean, h, directions, generator)))
        return torch.stack(ends)
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


def _slices(density: LeanDensity, state: Floats, directions: Tensor, generator: torch.Generator) -> Floats:
    """Return where one chain's state (width,) is after a slice along every direction."""
    value = density(state)
    for direction in directions.numpy():

        def along(d: float, start: Floats = state, direction: Floats = direction) -> float:
            return density(start + d * direction)

        d, value = slice_one(along, value, width=1.0, generator=generator)
        state = state + d * direction
    return state
