r"""Weights of a pool of predictive distributions, from what each gave the rows that it had not seen.

Stacking of predictive distributions (Yao, Vehtari, Simpson and Gelman, 2018, Bayesian Anal. 13, 917-1007, eq. 5): the
weights w on the simplex that maximise

    sum_i log sum_m w_m p_m(y_i | the other rows) + (a / M) sum_m log w_m

The second term is a Dirichlet prior worth `a` rows, so that a few rows do not silence a member; the sum is concave and
its maximum is found by EM. A pool of calibrated members is too wide unless they agree (Gneiting and Ranjan, 2013,
Electron. J. Stat. 7, 1747-1782, theorem 3.1), so all members may be drawn together about their centres by one factor c
(the spread-adjusted linear pool, their section 3.3): c is chosen from a grid, with log c ~ N(0, sd^2).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]

SPREADS: Floats = np.round(np.arange(0.84, 1.1201, 0.02), 2)  # factors that are tried
TOLERANCE = 1e-9  # of the mean log density of a row
MOST_STEPS = 5000


@dataclass(frozen=True, eq=False)
class PoolFit:
    """Weights (member,), the factor of the spread, and the mean log density of a row left out under this pool."""

    weights: Floats
    spread: float
    mean_log_density: float


def stacking_weights(log_densities: Floats, *, prior_rows: float) -> Floats:
    """Return the weights (member,) for log densities (row, member) of rows that the members had not seen.

    >>> stacking_weights(np.log([[0.2, 0.1], [0.2, 0.1]]), prior_rows=1e-9).round(3).tolist()
    [1.0, 0.0]
    """
    n, members = log_densities.shape
    likelihoods = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    weights = np.full(members, 1.0 / members)
    before = -np.inf
    for _ in range(MOST_STEPS):
        joint = likelihoods * weights
        rows = joint.sum(axis=1, keepdims=True)
        weights = ((joint / rows).sum(axis=0) + prior_rows / members) / (n + prior_rows)
        value = float(np.log(rows).mean())
        if value - before < TOLERANCE:
            break
        before = value
    return weights


def fit_pool(
    log_densities: Floats, *, spreads: Floats, prior_rows: float, spread_sd: float
) -> PoolFit:
    """Choose weights and factor together, from log densities (row, member, spread) at these factors (spread,)."""
    members = log_densities.shape[1]
    fits = []
    for k, spread in enumerate(spreads):
        weights = stacking_weights(log_densities[:, :, k], prior_rows=prior_rows)
        pooled = logsumexp(log_densities[:, :, k], b=weights, axis=1)
        prior = (
            prior_rows / members * np.log(weights).sum() - 0.5 * (np.log(spread) / spread_sd) ** 2
        )
        fits.append(
            (float(pooled.sum() + prior), PoolFit(weights, float(spread), float(pooled.mean())))
        )
    return max(fits, key=lambda fit: fit[0])[1]
