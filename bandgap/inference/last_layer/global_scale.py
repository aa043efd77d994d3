"""Posterior of the global scale x of a regression's change, on a grid or by a random walk.

log p(x | Z) = log g(x) - 1/2 sum_j log(1 + x e_j) - (a + n/2) log(b + Q(x) / 2) with delta and
sigma^2 integrated out (`spectral_regression`). On a grid of log x the posterior is exact, and draws
are independent. Abba (2023), appendix B.1, has a Metropolis step on log x; here it has the same
target and serves as a check.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.last_layer.spectral_regression import SpectralRegression

REACH = 60.0  # half width in log x of the first grid
COARSE = 401  # points of the first grid
FINE = 1001  # points of the second grid
NEGLIGIBLE = 40.0  # log density below the maximum: less than 1e-15 of the mass is outside
BEST_ACCEPTANCE = (0.30, 0.45)

Floats = NDArray[np.float64]


class ScalePrior(Protocol):
    """Prior of x."""

    def log_density(self, log_x: Floats) -> Floats:
        """Return the log density of log x, of the shape of `log_x`."""
        ...


@dataclass(frozen=True, eq=False)
class GlobalScale:
    """Density of log x on an even grid, (k,); the weights sum to 1."""

    regression: SpectralRegression
    log_x: Floats
    weights: Floats

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Draw delta (size, p), sigma^2 (size,) and x (size,), independently."""
        x = np.exp(self.draw_log_x(size, rng))
        delta, sigma2 = self.regression.draw(x, rng)
        return delta, sigma2, x

    def draw_log_x(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw log x (size,) by inversion; the density is linear between grid points."""
        step = 0.5 * (self.weights[1:] + self.weights[:-1])
        below = np.concatenate([[0.0], np.cumsum(step)])
        result: Floats = np.interp(rng.random(size) * below[-1], below, self.log_x)
        return result


def integrate_global_scale(
    regression: SpectralRegression, prior: ScalePrior, *, centre: float
) -> GlobalScale:
    """Return the posterior of log x on a grid.

    A first, wide grid about `centre` finds the range of the second.
    """
    wide = np.linspace(centre - REACH, centre + REACH, COARSE)
    value = log_posterior(regression, prior, wide)
    inside = np.flatnonzero(value > value.max() - NEGLIGIBLE)
    low = wide[max(inside[0] - 1, 0)]
    high = wide[min(inside[-1] + 1, COARSE - 1)]
    log_x = np.linspace(low, high, FINE)
    value = log_posterior(regression, prior, log_x)
    weights = np.exp(value - value.max())
    return GlobalScale(regression, log_x, weights / weights.sum())


def log_posterior(regression: SpectralRegression, prior: ScalePrior, log_x: Floats) -> Floats:
    """Return the log density (k,) of log x (k,) given the data, up to a constant."""
    return regression.log_likelihood(np.exp(log_x)) + prior.log_density(log_x)


def metropolis(
    regression: SpectralRegression,
    prior: ScalePrior,
    *,
    start: float,
    warmup: int,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Floats, float]:
    """Return draws of log x by a random walk, (draws,), and the acceptance rate after warm-up.

    Proposals are normal about the present position, so that the ratio of proposal densities is 1.
    The step adapts to an acceptance rate of 0.30 to 0.45 during warm-up only.
    """
    position = start
    step = 1.0
    n_accepted = 0
    value = float(log_posterior(regression, prior, np.array([position]))[0])
    walk = np.empty(draws)
    for i in range(warmup + draws):
        proposal = position + step * float(rng.standard_normal())
        proposal_value = float(log_posterior(regression, prior, np.array([proposal]))[0])
        is_accepted = proposal_value - value > -float(rng.standard_exponential())
        if is_accepted:
            position = proposal
            value = proposal_value
        if i < warmup:
            step *= math.exp((is_accepted - sum(BEST_ACCEPTANCE) / 2) / math.sqrt(1.0 + i))
        else:
            walk[i - warmup] = position
            n_accepted += is_accepted
    return walk, n_accepted / draws
