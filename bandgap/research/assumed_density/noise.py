"""The step of a gamma distribution of a noise precision by one label, and the label's evidence."""

import math
from typing import Final

import torch
from torch import Tensor

from bandgap.research.assumed_density.moments import Moments

LEAST_SHAPE: Final = 2.0


def noise_step(y: Tensor, output: Moments, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log Z of labels, and the gamma distributions (a, b) of their noise after them.

    `output` are the moments of the labels' means. All arguments have one shape; every label has its
    own gamma distribution. The new one has the same E gamma and E gamma^2 as the posterior; if
    there is none with a of at least 2, (a, b) are unchanged.
    """
    mean, variance = output.slab()
    share = output.share
    noise = b / (a - 1.0)
    spread = variance + noise
    error = y - mean
    log_slab = _log_normal(error, spread)
    log_z = log_slab
    is_mixture = bool((share < 1.0).any())
    if is_mixture:
        log_atom = _log_normal(y, noise)
        high = torch.maximum(log_slab, log_atom).detach()
        density = share * (log_slab - high).exp() + (1.0 - share) * (log_atom - high).exp()
        log_z = high + density.log()
    with torch.no_grad():
        ratios = []
        for change in (-noise / a, -2.0 * noise / (a + 1.0)):
            ratio = _log_ratio(error, spread, change)
            if is_mixture:
                weight = share * (log_slab - log_z).exp()
                atom = torch.expm1(_log_ratio(y, noise, change))
                ratio = torch.log1p(weight * torch.expm1(ratio) + (1.0 - weight) * atom)
            ratios.append(ratio)
        first, second = ratios
        growth = (second - first) - first + torch.log1p(1.0 / a)
        new_a = 1.0 / torch.expm1(growth)
        new_b = new_a * (b / a) * torch.exp(-first)
        is_proper = (new_a >= LEAST_SHAPE) & (new_b > 0.0) & (new_a + new_b < math.inf)
        return log_z, torch.where(is_proper, new_a, a), torch.where(is_proper, new_b, b)


def _log_normal(error: Tensor, variance: Tensor) -> Tensor:
    return -0.5 * (torch.log(2.0 * math.pi * variance) + error.square() / variance)


def _log_ratio(error: Tensor, variance: Tensor, change: Tensor) -> Tensor:
    """Return log N(error | 0, variance + change) - log N(error | 0, variance)."""
    bend = error.square() * change / (variance * (variance + change))
    return 0.5 * (bend - torch.log1p(change / variance))
