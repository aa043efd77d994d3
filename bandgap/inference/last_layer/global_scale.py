r"""The posterior of the one global scale x of a regression's change: exactly on a grid, or by a random walk as a check.

log p(x | Z) = log g(x) - 1/2 sum_j log(1 + x e_j) - (a + n/2) log(b + Q(x) / 2) with delta and sigma^2 integrated out
(`spectral_regression`). On a grid of log x this is one function of one number, and draws are independent.
Abba (2023), appendix B.1, has a Metropolis step on log x; here it has the same collapsed target.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.last_layer.spectral_regression import SpectralRegression

REACH, COARSE, FINE = (
    60.0,
    401,
    1001,
)  # half width of the first grid in log x about its centre; points of both grids
NEGLIGIBLE = 40.0  # log density below the highest point: less than 1e-15 of the mass is left out
BEST_ACCEPTANCE = (0.30, 0.45)

Floats = NDArray[np.float64]


class ScalePrior(Protocol):
    """Prior of x."""

    def log_density(self, log_x: Floats) -> Floats:
        """Return the log density of log x, of the shape of `log_x`."""
        ...


@dataclass(frozen=True, eq=False)
class GlobalScale:
    """Density of log x on an even grid, (k,) each, the weights summing to 1."""

    regression: SpectralRegression
    log_x: Floats
    weights: Floats

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
        """Draw delta (size, p), sigma^2 (size,) and x (size,), independently."""
        x = np.exp(self.draw_log_x(size, rng))
        delta, sigma2 = self.regression.draw(x, rng)
        return delta, sigma2, x

    def draw_log_x(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw log x (size,) by inversion, the density linear between grid points."""
        step = 0.5 * (self.weights[1:] + self.weights[:-1])
        below = np.concatenate([[0.0], np.cumsum(step)])
        result: Floats = np.interp(rng.random(size) * below[-1], below, self.log_x)
        return result


def integrate_global_scale(
    regression: SpectralRegression, prior: ScalePrior, *, centre: float
) -> GlobalScale:
    """Return the posterior of log x on a grid that a first, wide one about `centre` has found."""
    wide = np.linspace(centre - REACH, centre + REACH, COARSE)
    value = log_posterior(regression, prior, wide)
    inside = np.flatnonzero(value > value.max() - NEGLIGIBLE)
    low, high = wide[max(inside[0] - 1, 0)], wide[min(inside[-1] + 1, COARSE - 1)]
    log_x = np.linspace(low, high, FINE)
    value = log_posterior(regression, prior, log_x)
    weights = np.exp(value - value.max())
    return GlobalScale(regression, log_x, weights / weights.sum())


def log_posterior(regression: SpectralRegression, prior: ScalePrior, log_x: Floats) -> Floats:
    """Return the log density of log x given the data, without its constant, of the shape (k,) of `log_x`."""
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
    """Return draws of log x by a random walk, (draws,), and the share accepted after warm-up.

    The step adapts to an acceptance of 0.30 to 0.45 during warm-up only.
    """
    at, step, accepted = start, 1.0, 0
    value = float(log_posterior(regression, prior, np.array([at]))[0])
    found = np.empty(draws)
    for i in range(warmup + draws):
        proposal = at + step * float(rng.standard_normal())
        proposed = float(log_posterior(regression, prior, np.array([proposal]))[0])
        taken = proposed - value > -float(rng.standard_exponential())
        at, value = (proposal, proposed) if taken else (at, value)
        if i < warmup:
            step *= math.exp((taken - sum(BEST_ACCEPTANCE) / 2) / math.sqrt(1.0 + i))
        else:
            found[i - warmup] = at
            accepted += taken
    return found, accepted / draws
