r"""The noise variance of a regression: its prior, what the response tells, and its draw with delta integrated out.

Given prior variances D of delta in units of sigma^2 and the values delta_h of the coefficients that are held, sigma^2 ~
InvGamma(a + (n + h) / 2, b + (Z'K^-1 Z - E) / 2); h is their number and E what the coefficients explain: with none
held g'A^-1 g, A = G + D^-1 (Johndrow, Orenstein and Bhattacharya, 2020).
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NoisePrior:
    """sigma^2 ~ InvGamma(shape, scale), in the units of the response; meant for one of unit variance."""

    shape: float = 0.1
    scale: float = 0.1


@dataclass(frozen=True)
class Response:
    """What the reduced response tells of the noise: Z'K^-1 Z, the number of rows left, and the prior."""

    square: float
    n: int
    prior: NoisePrior = NoisePrior()


def draw_noise_variance(
    explained: float, response: Response, rng: np.random.Generator, *, held: int = 0
) -> float:
    """Draw sigma^2 given what the coefficients explain, `held` of them being held."""
    rate = response.prior.scale + 0.5 * max(response.square - explained, 0.0)
    return rate / float(rng.standard_gamma(response.prior.shape + 0.5 * (response.n + held)))
