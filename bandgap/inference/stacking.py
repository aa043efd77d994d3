r"""Stacking weights of a pool of predictive distributions, from held-out rows.

Stacking of predictive distributions (Yao, Vehtari, Simpson and Gelman, 2018, Bayesian Anal. 13,
917-1007, eq. 5): the weights w on the simplex that maximise

    sum_i log sum_m w_m p_m(y_i | the other rows) + (a / M) sum_m log w_m

The second term is a Dirichlet prior worth `a` rows, so that a few rows do not give a member the
weight zero. The sum is concave and its maximum is found by EM. A pool of calibrated members is too
wide unless they agree (Gneiting and Ranjan, 2013, Electron. J. Stat. 7, 1747-1782, theorem 3.1).
All members may therefore be narrowed about their centres by one factor c (the spread-adjusted
linear pool, their section 3.3). c is selected from a grid, with log c ~ N(0, sd^2).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]

SPREADS: Floats = np.round(np.arange(0.84, 1.1201, 0.02), 2)  # factors that are tried
TOLERANCE = 1e-9  # of the mean log density of a row
MOST_STEPS = 5000  # of EM


@dataclass(frozen=True, eq=False)
class PoolFit:
    """Weights (member,), factor of the spread, and mean log density of a held-out row."""

    weights: Floats
    spread: float
    mean_log_density: float


def stacking_weights(log_densities: Floats, *, prior_rows: float) -> Floats:
    """Return the weights (member,) for log densities (row, member) of held-out rows.

    `prior_rows` is the number of rows that the Dirichlet prior is worth.

    >>> stacking_weights(np.log([[0.2, 0.1], [0.2, 0.1]]), prior_rows=1e-9).round(3).tolist()
    [1.0, 0.0]
    """
    n_rows, n_members = log_densities.shape
    likelihoods = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(n_members, 1.0 / n_members)
    previous = -np.inf
    for _ in range(MOST_STEPS):
        joint = likelihoods * weights
        pooled = joint.sum(axis=1, keepdims=True)
        responsibilities = (joint / pooled).sum(axis=0)
        weights = (responsibilities + prior_rows / n_members) / (n_rows + prior_rows)
        value = float(np.log(pooled).mean())
        if value - previous < TOLERANCE:
            break
        previous = value
    return weights


def fit_pool(
    log_densities: Floats, *, spreads: Floats, prior_rows: float, spread_sd: float
) -> PoolFit:
    """Fit weights and factor together.

    `log_densities` (row, member, spread) are those of held-out rows at the factors `spreads`
    (spread,). `spread_sd` is the standard deviation of log c.
    """
    n_members = log_densities.shape[1]
    fits = []
    for k, spread in enumerate(spreads):
        weights = stacking_weights(log_densities[:, :, k], prior_rows=prior_rows)
        pooled = logsumexp(log_densities[:, :, k], b=weights, axis=1)
        weight_prior = prior_rows / n_members * np.log(weights).sum()
        spread_prior = -0.5 * (np.log(spread) / spread_sd) ** 2
        value = float(pooled.sum() + (weight_prior + spread_prior))
        fits.append((value, PoolFit(weights, float(spread), float(pooled.mean()))))
    return max(fits, key=lambda fit: fit[0])[1]
