"""Slice sampling of the scales, with the weights z fixed and the output layer integrated out.

It complements the joint paths: what the data determine about a scale given the weights is found
here in one move. A slice is taken along a line (Neal, 2003), and a bracket of fixed width shrinks.

On a CPU chains move one after the other (`_slices_of_chain`, `slice_one`), by the compiled density.
Elsewhere they move as a batch (`slice_move`): several points of a bracket are evaluated together.
Points outside the bracket as shrunk by the points before them are skipped, which leaves uniform
points of the shrunk bracket, so that the law is the same. `test_scale_moves.py` checks both against
the same density.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bandgap.inference.network.compiled_density import (
    CompiledDensity,
    has_compiled_code,
    network_of_chain,
)
from bandgap.inference.network.joint_density import log_density
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

POINTS = 4  # of a bracket evaluated together: a move takes about five in all
MAX_ROUNDS = 12  # a bracket then is about 1e-9 of its first width: the chain stays where it is


def step_scales(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    directions: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Slice-sample the scales once along each direction.

    `directions` has shape (k, width); the lengths of its rows are the widths of the brackets.
    """
    if has_compiled_code(net):
        ends = []
        for chain, h in enumerate(state.numpy()):
            density = CompiledDensity(network_of_chain(net, chain), prior)
            density.set_weights([q[chain].numpy() for q in z])
            ends.append(torch.from_numpy(_slices_of_chain(density, h, directions, generator)))
        return torch.stack(ends)
    projected = net.project(z[0])
    value = log_density(net, z, state, prior, projected=projected)
    repeated_z = [z[0], *[q.repeat_interleave(POINTS, 0) for q in z[1:]]]
    repeated_projected = projected.repeat_interleave(POINTS, 0)
    batch = net.repeated(POINTS)
    for direction in directions:
        start = state

        def along(at: Tensor, start: Tensor = start, direction: Tensor = direction) -> Tensor:
            proposals = (start[:, None] + at[..., None] * direction).flatten(0, 1)
            values = log_density(batch, repeated_z, proposals, prior, projected=repeated_projected)
            return values.reshape(at.shape)

        position, value = slice_move(along, value, width=1.0, generator=generator)
        state = start + position[:, None] * direction
    return state


def _slices_of_chain(
    density: CompiledDensity, state: Floats, directions: Tensor, generator: torch.Generator
) -> Floats:
    """Return one chain's state (width,) after a slice along every direction."""
    value = density(state)
    for direction in directions.numpy():

        def along(d: float, start: Floats = state, direction: Floats = direction) -> float:
            return density(start + d * direction)

        d, value = slice_one(along, value, width=1.0, generator=generator)
        state = state + d * direction
    return state


def slice_move(
    log_density: Callable[[Tensor], Tensor],
    at_zero: Tensor,
    *,
    width: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Move every chain along its line from 0 by one slice.

    `log_density` maps positions (chain, POINTS) to values of the same shape; `at_zero` (chain,) are
    the values at 0. Returns positions and log densities there, both (chain,).
    """
    level = at_zero + torch.log(_uniform(at_zero, (), generator))
    high = width * _uniform(at_zero, (), generator)
    low = high - width
    position = torch.zeros_like(at_zero)
    density = at_zero
    moving = torch.ones_like(at_zero, dtype=torch.bool)
    for _ in range(MAX_ROUNDS):
        points = low[:, None] + (high - low)[:, None] * _uniform(at_zero, (POINTS,), generator)
        for point, value in zip(points.T, log_density(points).T, strict=True):
            tried = moving & (point >= low) & (point <= high)
            accepted = tried & (value >= level)
            position = torch.where(accepted, point, position)
            density = torch.where(accepted, value, density)
            moving = moving & ~accepted
            rejected = tried & ~accepted
            low = torch.where(rejected & (point < 0), point, low)
            high = torch.where(rejected & (point >= 0), point, high)
        if not bool(moving.any()):
            break
    return position, density


def _uniform(like: Tensor, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(
        (*like.shape, *size), generator=generator, device=like.device, dtype=torch.float64
    )


def slice_one(
    log_density: Callable[[float], float],
    at_zero: float,
    *,
    width: float,
    generator: torch.Generator,
) -> tuple[float, float]:
    """Do `slice_move` for one chain, one point after the other.

    `log_density` maps a position to its value; `at_zero` is that at 0. Returns the position and the
    log density there.
    """

    def uniform() -> float:
        return float(torch.rand((), generator=generator, dtype=torch.float64))

    level = at_zero + math.log(1.0 - uniform())
    high = width * uniform()
    low = high - width
    for _ in range(POINTS * MAX_ROUNDS):
        point = low + (high - low) * uniform()
        value = log_density(point)
        if value >= level:
            return point, value
        low, high = (point, high) if point < 0 else (low, point)
    return 0.0, at_zero
