"""Draws from a low-dimensional posterior with one mode: importance sampling about the mode, smoothed and resampled.

The proposal is a multivariate Student t with 5 degrees of freedom at the mode with the inverse Hessian as its scale,
refined once by the weighted moments of a first set. Weights are Pareto smoothed (Vehtari, Simpson, Gelman, Yao and
Gabry, 2024); draws with equal weights come from systematic resampling.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from bandgap.errors import InputError
from bandgap.progress import Progress, Update, no_progress

FREEDOM = 5.0  # of the Student t: heavier tails than a posterior about its mode
MIN_PROPOSALS = 50  # a fifth of them makes the tail whose shape is fitted
REACH = 8.0  # largest step of the search for the mode in any coordinate

Floats = NDArray[np.float64]
LogDensity = Callable[[Floats], tuple[float, Floats]]  # theta (k,) -> value, gradient (k,)


@dataclass(frozen=True, eq=False)
class ImportanceInfo:
    """The mode, how many effective draws the weights leave, and the shape k of their tail (fine below 0.7)."""

    mode: Floats
    ess: float
    k_hat: float
    n_proposals: int


def importance_draws(
    log_density: LogDensity,
    start: Floats,
    *,
    n_draws: int,
    n_proposals: int = 300,
    rng: np.random.Generator,
    phase: str = "sampling",
    progress: Progress = no_progress,
) -> tuple[Floats, ImportanceInfo]:
    """Return draws (n_draws, k) with equal weights from the density near `start` (k,).

    Raises InputError when the density is not finite at the start, and below 50 proposals.
    """
    if n_proposals < MIN_PROPOSALS:
        raise InputError(f"{n_proposals} proposals are too few to judge their weights. Give at least {MIN_PROPOSALS}.")
    value, _ = log_density(start)
    if not np.isfinite(value):
        raise InputError(f"log density at the start {start} is {value}. Give a start inside its support.")
    mode = _mode(log_density, start)
    total, done = 2 * n_proposals, 0
    centre, factor = mode, _factor(log_density, mode)
    for stage in range(2):
        scores = rng.standard_normal((n_proposals, start.size))
        stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=n_proposals))
        steps = scores * stretch[:, None]
        proposals = centre + steps @ factor.T
        log_weights = np.empty(n_proposals)
        for i, theta in enumerate(proposals):
            log_weights[i] = log_density(theta)[0] + _minus_log_t(steps[i])
            done += 1
            if done % 20 == 0 or done == total:
                progress(Update(phase, done, total))
        log_weights = np.where(np.isfinite(log_weights), log_weights, -np.inf)
        weights, k_hat = _smoothed(log_weights - float(log_weights.max()))
        if stage == 0:
            centre = weights @ proposals
            spread = (proposals - centre).T @ (weights[:, None] * (proposals - centre))
            factor = np.asarray(np.linalg.cholesky(spread + 1e-9 * np.eye(start.size)), dtype=np.float64)
    points = (np.arange(n_draws) + rng.random()) / n_draws
    chosen = np.searchsorted(np.cumsum(weights), points * weights.sum()).clip(max=n_proposals - 1)
    return proposals[chosen], ImportanceInfo(mode, float(1.0 / (weights**2).sum()), k_hat, total)


def _smoothed(log_weights: Floats) -> tuple[Floats, float]:
    """Return normalised weights (n,), Pareto smoothed, and the shape k of their tail.

    Weights that all but equal their largest have no tail to fit: they stay as they are, with k = 0.
    """
    with np.errstate(all="ignore"):
        # arviz-stats takes log likelihoods left out, that is, minus the log weights
        smoothed, k_hat = array_stats.psislw(-log_weights)  # type: ignore[no-untyped-call]
    fitted = bool(np.isfinite(k_hat) and np.isfinite(smoothed).any())
    chosen = np.asarray(smoothed if fitted else log_weights, dtype=np.float64)
    weights: Floats = np.exp(chosen - float(logsumexp(chosen)))
    return weights, float(k_hat) if fitted else 0.0


def _mode(log_density: LogDensity, start: Floats) -> Floats:
    def negative(theta: Floats) -> tuple[float, Floats]:
        value, gradient = log_density(theta)
        return (-value, -gradient) if np.isfinite(value) else (1e12, np.zeros_like(theta))

    bounds = [(s - REACH, s + REACH) for s in start]
    return np.asarray(minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64)


def _factor(log_density: LogDensity, mode: Floats, *, step: float = 0.05) -> Floats:
    """Return F with F F' the inverse of the negative Hessian at the mode, its eigenvalues kept inside 0.05^2 to 2^2."""
    k = mode.size
    hessian = np.empty((k, k))
    for i in range(k):
        move = step * np.eye(k)[i]
        hessian[i] = (log_density(mode + move)[1] - log_density(mode - move)[1]) / (2 * step)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    variances = 1.0 / np.clip(np.nan_to_num(values, nan=1.0), 1.0 / 2.0**2, 1.0 / 0.05**2)
    result: Floats = vectors * np.sqrt(variances)
    return result


def _minus_log_t(step: Floats) -> float:
    """Return minus the log density of the standard Student t at a step (k,), up to a constant."""
    return float(0.5 * (FREEDOM + step.size) * np.log1p((step @ step) / FREEDOM))
