"""Moments of a rectified normal, accurate at all means.

Hernandez-Lobato and Adams (2015), "Probabilistic backpropagation for scalable learning of Bayesian
neural networks", ICML, equations 12 to 15. For a ~ N(mean, variance), r = sqrt(variance), t = mean
/ r and b = max(a, 0),

    E b = mean Phi(t) + r phi(t),   E max(-a, 0) = r phi(t) - mean Phi(-t),
    Var b = variance Phi(t) - E b E max(-a, 0)

The last one follows from E b^2 = variance Phi(t) + mean E b. It does not subtract nearly equal
numbers, whereas E b^2 - (E b)^2 loses all digits at large t.
"""

import math
from typing import Final

import torch
from torch import Tensor
from torch.special import ndtr

LEAST_VARIANCE: Final = 1e-30


def rectified_moments(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of max(a, 0) for a ~ N(mean, variance).

    Arguments have any shape; the result has the precision of `mean`.
    """
    r = variance.clamp_min(LEAST_VARIANCE).sqrt()
    t = mean / r
    density = r * torch.exp(-0.5 * t.square()) / math.sqrt(2.0 * math.pi)
    above = ndtr(t)
    positive = (mean * above + density).clamp_min(0.0)
    negative = (density - mean * ndtr(-t)).clamp_min(0.0)
    return positive, (r.square() * above - positive * negative).clamp_min(0.0)
