"""Estimators of many normal means from a source and a target (Abba 2023, chapter 3).

Y1_j ~ N(beta1_j, s2 / n1), Y2_j ~ N(beta1_j + delta_j, s2 / n2), Z = Y2 - Y1, with s2 = 1 known.
All functions work on replicates together: arrays are (replicate, p), and the results too.

The horseshoe is exact: given tau, E[delta | z] = w(z) z with w of eq. 3.5, tabulated over z and
tau. The posterior of tau, half-Cauchy on [1/p, 1], is a sum over a grid of tau, so that no chain
has to converge. The penalized-complexity posterior is an integral over its one scale x.
"""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bandgap.priors.source_distance import source_distance

Floats = NDArray[np.float64]

N_TAU = 40  # points of log tau
Z_STEP = 0.02  # of |z| in units of its standard deviation
Z_LARGEST = 60.0  # above which 1 - w is below 1e-3 and w is constant
Z_GRID = np.arange(0.0, Z_LARGEST + 2 * Z_STEP, Z_STEP)
T_GRID = np.arange(-30.0, 50.0, 0.2)  # log of lambda; the trapezoid rule is exact to 1e-10


def horseshoe_weights(z: Floats, tau: float) -> tuple[Floats, Floats]:
    """Return log m(z) and w(z) of eq. 3.5 for z (k,) of standard deviation 1.

    With lambda = exp(t) the density of t is sech(t) / pi, z given t is N(0, 1 + tau^2 lambda^2),
    and w is the posterior mean of tau^2 lambda^2 / (1 + tau^2 lambda^2).
    """
    log_odds = 2.0 * (math.log(tau) + T_GRID)
    variance = np.logaddexp(0.0, log_odds)  # log of 1 + tau^2 lambda^2
    share = 1.0 / (1.0 + np.exp(-log_odds))
    log_prior = math.log(2.0 / math.pi) - np.logaddexp(T_GRID, -T_GRID)
    step = T_GRID[1] - T_GRID[0]
    constant = log_prior - 0.5 * variance - 0.5 * math.log(2.0 * math.pi) + math.log(step)
    log_terms = constant - 0.5 * z[:, None] ** 2 * np.exp(-variance)
    top = log_terms.max(1, keepdims=True)
    terms = np.exp(log_terms - top)
    total = terms.sum(1)
    return top[:, 0] + np.log(total), terms @ share / total


@cache
def horseshoe_table(taus: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return log m(z | tau) and w(z | tau), (tau, z), over `Z_GRID`."""
    marginals, weights = zip(*(horseshoe_weights(Z_GRID, tau) for tau in taus), strict=True)
    return np.stack(marginals), np.stack(weights)


def horseshoe(z: Floats, variance: float, *, tau: float | None = None) -> Floats:
    """Return E[delta | Z] for Z of this variance; without `tau` it is half-Cauchy on [1/p, 1]."""
    replicates, p = z.shape
    taus = np.geomspace(1.0 / p, 1.0, N_TAU) if tau is None else np.array([tau])
    log_marginal, weights = horseshoe_table(tuple(taus))
    place = np.minimum(np.abs(z) / math.sqrt(variance), Z_LARGEST) / Z_STEP
    index = place.astype(np.int32)
    fraction = place - index
    flat = index + len(Z_GRID) * np.arange(replicates)[:, None]
    counts = np.bincount(flat.ravel(), (1.0 - fraction).ravel(), replicates * len(Z_GRID))
    counts += np.bincount(flat.ravel() + 1, fraction.ravel(), replicates * len(Z_GRID))
    log_posterior = counts.reshape(replicates, -1) @ log_marginal.T + np.log(taus / (1 + taus**2))
    posterior = np.exp(log_posterior - log_posterior.max(1, keepdims=True))
    mixed = ((posterior / posterior.sum(1, keepdims=True)) @ weights).ravel()
    weight = (1.0 - fraction) * mixed[flat] + fraction * mixed[flat + 1]
    return np.asarray(weight * z)


def james_stein(z: Floats, variance: float | Floats) -> Floats:
    """Return the positive-part James-Stein estimate of the mean of z (eq. 3.21)."""
    squares = (z**2).sum(1, keepdims=True)
    shrink = 1.0 - (z.shape[1] - 2) * np.asarray(variance) / squares
    return np.asarray(np.maximum(shrink, 0.0) * z)


def pcp(z: Floats, *, n1: int, n2: int) -> Floats:
    """Return E[delta | Z] with the penalized-complexity prior of section 3.2.2.

    Given x, Z_j ~ N(0, v), v = 1 / n2 + (1 + x) / n1, and E[delta] = ((1 + x) / n1) / v Z. The
    prior median of x is n1, a change by one noise variance: the thesis gives no rate.
    """
    prior = source_distance(np.ones(1), lam=None, median_x=float(n1))
    log_x = np.linspace(-25.0, 25.0, 2001)
    of_source = np.exp(np.logaddexp(0.0, log_x)) / n1
    variance = 1.0 / n2 + of_source
    log_prior = prior.log_density(log_x)
    squares = (z**2).sum(1)
    log_posterior = log_prior - 0.5 * z.shape[1] * np.log(variance)
    log_posterior = log_posterior - 0.5 * squares[:, None] / variance
    posterior = np.exp(log_posterior - log_posterior.max(1, keepdims=True))
    weight = (posterior @ (of_source / variance)) / posterior.sum(1)
    return np.asarray(weight[:, None] * z)


def sps_oracle(z: Floats, delta: Floats, *, n1: int, n2: int) -> Floats:
    """Return the estimate of soft parameter sharing with the best penalty for the true delta.

    Its estimate is Y1 + A Z with A = (1 / n1 + 1 / pen) / (1 / n1 + 1 / pen + 1 / n2). The best A
    over all penalties, by the true squared error of each data set, is a bound for any rule.
    """
    least = (1.0 / n1) / (1.0 / n1 + 1.0 / n2)
    best = (z * delta).sum(1) / (z**2).sum(1)
    return np.asarray(np.clip(best, least, 1.0)[:, None] * z)


def soft(z: Floats, threshold: float | Floats) -> Floats:
    """Return z moved towards 0 by the threshold."""
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0.0))


def sure_threshold(z: Floats, variance: float, *, steps: int = 60) -> Floats:
    """Return the threshold (replicate, 1) of least unbiased risk (Stein) for z of this variance."""
    sd = math.sqrt(variance)
    thresholds = sd * np.linspace(0.0, math.sqrt(2.0 * math.log(z.shape[1])), steps)
    size = np.abs(z)
    risks = [
        (np.minimum(size, threshold) ** 2).sum(1) + 2.0 * variance * (size > threshold).sum(1)
        for threshold in thresholds
    ]
    return np.asarray(thresholds[np.argmin(np.stack(risks), 0)])[:, None]


def trans_lasso(y1: Floats, y2: Floats, *, n1: int, n2: int) -> Floats:
    """Return the Trans-Lasso estimate of beta2 (Li, Cai and Li 2022) for normal means.

    A Lasso on the pooled means, then a Lasso on the target's residuals. The thesis gives no
    penalties; both are those of least unbiased risk.
    """
    pooled = (n1 * y1 + n2 * y2) / (n1 + n2)
    common = soft(pooled, sure_threshold(pooled, 1.0 / (n1 + n2)))
    residual = y2 - common
    return common + soft(residual, sure_threshold(residual, n1 / (n2 * (n1 + n2))))


def lasso_oracle(y1: Floats, y2: Floats, beta2: Floats, *, n1: int, n2: int) -> Floats:
    """Return the same with no penalty in the first stage and the best common one in the second.

    The threshold is chosen by the true squared error of all replicates together. No rule that sets
    a common threshold beforehand has a lower risk.
    """
    pooled = (n1 * y1 + n2 * y2) / (n1 + n2)
    residual = y2 - pooled
    sd = math.sqrt(n1 / (n2 * (n1 + n2)))
    candidates = sd * np.linspace(0.0, 3.0, 31)
    sample = slice(0, max(1, 200_000 // y1.shape[1]))
    errors = [
        float(((pooled + soft(residual, threshold) - beta2)[sample] ** 2).mean())
        for threshold in candidates
    ]
    return pooled + soft(residual, float(candidates[int(np.argmin(errors))]))


def linear_minimax(*, radius_squared: float, variance: float) -> float:
    """Return Pinsker's linear minimax risk per coordinate, s^2 r^2 / (s^2 + r^2) (eq. 3.19).

    `radius_squared` is the bound of mean delta_j^2.
    """
    return variance * radius_squared / (variance + radius_squared)
