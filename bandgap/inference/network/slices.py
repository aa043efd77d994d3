"""Slice sampling along one line (Neal, 2003, with a fixed bracket that shrinks), of one chain or many at once.

For many, several points of a bracket are evaluated as one batch. Those that fall outside the bracket as shrunk by the
points before them are skipped, which leaves uniform points of the shrunk bracket: the law is that of one at a time.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

POINTS = 4  # of a bracket evaluated at once: a move takes about five in all
MAX_ROUNDS = 12  # a bracket then is about 1e-9 of its first width: the chain stays where it is


def slice_move(
    log_density: Callable[[Tensor], Tensor], at_zero: Tensor, *, width: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Move every chain along its line from 0 by one slice; return positions and log densities there, both (chain,).

    `log_density` maps positions (chain, POINTS) to values of the same shape; `at_zero` (chain,) are the values at 0.
    """
    level = at_zero + torch.log(_uniform(at_zero, (), generator))
    high = width * _uniform(at_zero, (), generator)
    low = high - width
    position, density = torch.zeros_like(at_zero), at_zero
    moving = torch.ones_like(at_zero, dtype=torch.bool)
    for _ in range(MAX_ROUNDS):
        points = low[:, None] + (high - low)[:, None] * _uniform(at_zero, (POINTS,), generator)
        for point, value in zip(points.T, log_density(points).T, strict=True):
            tried = moving & (point >= low) & (point <= high)
            hit = tried & (value >= level)
            position, density = torch.where(hit, point, position), torch.where(hit, value, density)
            moving, missed = moving & ~hit, tried & ~hit
            low = torch.where(missed & (point < 0), point, low)
            high = torch.where(missed & (point >= 0), point, high)
        if not bool(moving.any()):
            break
    return position, density


def _uniform(like: Tensor, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand((*like.shape, *size), generator=generator, device=like.device, dtype=torch.float64)


def slice_one(
    log_density: Callable[[float], float], at_zero: float, *, width: float, generator: torch.Generator
) -> tuple[float, float]:
    """Make `slice_move` for one chain, one point at a time; return its position and the log density there.

    `log_density` maps a position to its value; `at_zero` is that at 0.
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
