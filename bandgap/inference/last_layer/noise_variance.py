"""The noise variance of a regression: prior, information in the response, and exact draws.

Given prior variances D of delta in units of sigma^2 and the values of h fixed coefficients,

    sigma^2 ~ InvGamma(a + (n + h) / 2, b + (Z'K^-1 Z - E) / 2),

where E is what the coefficients explain. Without fixed ones delta is integrated out and E = g'A^-1
g, A = G + D^-1 (Johndrow, Orenstein and Bhattacharya, 2020).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NoisePrior:
    """sigma^2 ~ InvGamma(shape, scale), in units of a response of variance about 1."""

    shape: float = 0.1
    scale: float = 0.1


@dataclass(frozen=True)
class Response:
    """The reduced response: Z'K^-1 Z, the number of contrasts, and the prior of the noise."""

    square: float
    n: int
    prior: NoisePrior = NoisePrior()


def draw_noise_variance(
    explained: float, response: Response, rng: np.random.Generator, *, n_fixed: int = 0
) -> float:
    """Draw sigma^2 given what the coefficients explain, `n_fixed` of which are fixed."""
    rate = response.prior.scale + 0.5 * max(response.square - explained, 0.0)
    return rate / float(rng.standard_gamma(response.prior.shape + 0.5 * (response.n + n_fixed)))
