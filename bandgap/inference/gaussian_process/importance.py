"""Draws from a low-dimensional posterior with one mode by adaptive importance sampling.

In each round, proposals are draws from a multivariate Student t distribution with 5 degrees of
freedom. The first one is at the mode with the inverse Hessian as its scale. Each later one has the
weighted moments of all points so far. Every point is weighted against the mixture of the proposals
of all rounds (adaptive multiple importance sampling; Cornuet, Marin, Mira and Robert, 2012).
Weights are Pareto smoothed (Vehtari, Simpson, Gelman, Yao and Gabry, 2024). Rounds end when the
weights are even enough, or after the last round. Draws with equal weights come from systematic
resampling.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import logsumexp

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress

FREEDOM = (
    5.0  # degrees of freedom of Student's t, with heavier tails than a posterior near its mode
)
MIN_PROPOSALS = 50  # the shape of the tail is fitted to a fifth of them
MIN_ROUNDS = 2
# Shape of the tail below which rounds end, if ESS is large enough.
MAX_SHAPE = 0.5
MODE_RANGE = 8.0  # largest distance of the mode from the start in any coordinate

Floats = NDArray[np.float64]
LogDensity = Callable[[Floats], tuple[float, Floats]]  # theta (k,) -> value, gradient (k,)
LogValue = Callable[[Floats], float]


@dataclass(frozen=True, eq=False)
class ImportanceInfo:
    """The mode, ESS of the weights, and the shape k of their tail, which is good below 0.7."""

    mode: Floats
    ess: float
    k_hat: float
    n_proposals: int


@dataclass(frozen=True, eq=False)
class _StudentT:
    """Multivariate Student t at `centre` (k,) with scale F F', `factor` F lower triangular."""

    centre: Floats
    factor: Floats

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        stretch = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=n))
        scores = rng.standard_normal((n, self.centre.size)) * stretch[:, None]
        return self.centre + scores @ self.factor.T

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points (n, k) up to a constant."""
        z = solve_triangular(self.factor, (points - self.centre).T, lower=True)
        exponent = -0.5 * (FREEDOM + self.centre.size)
        result: Floats = (
            exponent * np.log1p((z**2).sum(axis=0) / FREEDOM) - np.log(np.diag(self.factor)).sum()
        )
        return result


def importance_draws(
    log_density: LogDensity,
    start: Floats,
    *,
    n_draws: int,
    n_proposals: int = 128,
    rounds: int = 6,
    log_value: LogValue | None = None,
    rng: np.random.Generator,
    phase: str = "sampling",
    progress: Progress = no_progress,
) -> tuple[Floats, ImportanceInfo]:
    """Return draws (n_draws, k) with equal weights from a density with one mode.

    Parameters
    ----------
    log_density
        Log density and its gradient.
    start
        Start of the search for the mode, (k,).
    n_draws
        Number of draws.
    n_proposals
        Proposals in each round, at least 50.
    rounds
        Most rounds, at least 2. They end earlier if ESS is at least `n_draws` and the tail of the
        weights is light.
    log_value
        Log density without its gradient, if that is cheaper.

    Raises
    ------
    InputError
        If the density is not finite at the start, or there are too few proposals or rounds.
    """
    if n_proposals < MIN_PROPOSALS or rounds < MIN_ROUNDS:
        raise InputError(
            f"{n_proposals} proposals in each of {rounds} rounds are too few to judge their "
            f"weights. Give at least {MIN_PROPOSALS} and {MIN_ROUNDS}."
        )
    value, _ = log_density(start)
    if not np.isfinite(value):
        raise InputError(
            f"log density at the start {start} is {value}. Give a start inside its support."
        )
    evaluate = log_value or (lambda theta: log_density(theta)[0])
    mode = mode_near(log_density, start)
    proposals = [_StudentT(mode, _factor(log_density, mode))]
    points = np.empty((0, start.size))
    values = np.empty(0)
    ess = 0.0
    k_hat = np.inf
    weights = values
    for done in range(rounds):
        new = proposals[-1].draw(n_proposals, rng)
        log_targets = np.empty(n_proposals)
        for i, theta in enumerate(new):
            log_targets[i] = evaluate(theta)
            if (i + 1) % 20 == 0 or i + 1 == n_proposals:
                progress(Update(phase, done * n_proposals + i + 1, rounds * n_proposals))
        points = np.concatenate([points, new])
        values = np.concatenate([values, log_targets])
        by_round = np.array([proposal.log_density(points) for proposal in proposals])
        log_weights = np.where(np.isfinite(values), values - logsumexp(by_round, axis=0), -np.inf)
        weights, k_hat = _smoothed(log_weights - float(log_weights.max()))
        ess = float(1.0 / (weights**2).sum())
        if done + 1 >= MIN_ROUNDS and ess >= n_draws and k_hat < MAX_SHAPE:
            break
        proposals.append(_moments(points, weights, ess, last=proposals[-1]))
    places = (np.arange(n_draws) + rng.random()) / n_draws
    rows = np.searchsorted(np.cumsum(weights), places * weights.sum()).clip(max=weights.size - 1)
    return points[rows], ImportanceInfo(mode, ess, k_hat, weights.size)


def _moments(points: Floats, weights: Floats, ess: float, *, last: _StudentT) -> _StudentT:
    """Return the proposal with the weighted moments of points (n, k).

    Its scale is a mean with that of the last proposal, which has more weight if ESS is small.
    """
    k = points.shape[1]
    centre = weights @ points
    spread = (points - centre).T @ (weights[:, None] * (points - centre))
    blend = (ess * spread + k * last.factor @ last.factor.T) / (ess + k)
    return _StudentT(
        centre, np.asarray(np.linalg.cholesky(blend + 1e-9 * np.eye(k)), dtype=np.float64)
    )


def _smoothed(log_weights: Floats) -> tuple[Floats, float]:
    """Return normalised, Pareto smoothed weights (n,) and the shape k of their tail.

    Weights that are almost equal have no tail to fit; they are not smoothed, and k is 0.
    """
    from arviz_stats.base.array import array_stats  # as `inference.diagnostics` does

    with np.errstate(all="ignore"):
        # arviz-stats expects the log likelihoods of left-out rows, which are minus the log weights.
        smoothed, k_hat = array_stats.psislw(-log_weights)  # type: ignore[no-untyped-call]
    fitted = bool(np.isfinite(k_hat) and np.isfinite(smoothed).any())
    used_log_weights = np.asarray(smoothed if fitted else log_weights, dtype=np.float64)
    weights: Floats = np.exp(used_log_weights - float(logsumexp(used_log_weights)))
    return weights, float(k_hat) if fitted else 0.0


def mode_near(log_density: LogDensity, start: Floats) -> Floats:
    """Return the mode (k,) of a density, at most `MODE_RANGE` from the start in any coordinate."""

    def negative(theta: Floats) -> tuple[float, Floats]:
        value, gradient = log_density(theta)
        return (-value, -gradient) if np.isfinite(value) else (1e12, np.zeros_like(theta))

    bounds = [(s - MODE_RANGE, s + MODE_RANGE) for s in start]
    return np.asarray(
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds).x, dtype=np.float64
    )


def _factor(log_density: LogDensity, mode: Floats, *, step: float = 0.05) -> Floats:
    """Return the lower triangular F with F F' the inverse of the negative Hessian at the mode.

    The eigenvalues of F F' are clipped to 0.05^2 to 2^2.
    """
    k = mode.size
    hessian = np.empty((k, k))
    for i in range(k):
        move = step * np.eye(k)[i]
        hessian[i] = (log_density(mode + move)[1] - log_density(mode - move)[1]) / (2 * step)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    variances = 1.0 / np.clip(np.nan_to_num(values, nan=1.0), 1.0 / 2.0**2, 1.0 / 0.05**2)
    return np.asarray(np.linalg.cholesky((vectors * variances) @ vectors.T), dtype=np.float64)
