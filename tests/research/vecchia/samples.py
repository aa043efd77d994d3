"""Small irregular fields, and the formulas of a Vecchia likelihood written out with dense matrices:
the reference.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv

from bandgap.research.vecchia.likelihood import Theta, build_blocks
from bandgap.research.vecchia.target import log_likelihood


def matern_of(distances, theta):
    """The correlation by scipy's Bessel function."""
    x = np.where(distances > 0, distances, 1.0) / theta.rho
    value = 2 ** (1 - theta.nu) / gamma(theta.nu) * x**theta.nu * kv(theta.nu, x)
    return np.where(distances > 0, value, 1.0)


def covariance_of(points, theta):
    return theta.sigma2 * matern_of(cdist(points, points), theta) + theta.tau2 * np.eye(len(points))


def field(n, q, theta, *, seed, covariates=2):
    """Points (n, q) at random, covariates (n, p) and one draw of observations."""
    rng = np.random.default_rng([seed, n, q])
    points = rng.random((n, q)) * n ** (1 / q) / 2
    rows = np.column_stack([np.ones(n), rng.normal(size=(n, covariates - 1))])
    beta = np.linspace(0.7, -0.4, covariates)
    y = rows @ beta + np.linalg.cholesky(covariance_of(points, theta)) @ rng.standard_normal(n)
    return points, rows, y


def blocks_of(n, q, theta, *, m, seed=0, covariates=2):
    return build_blocks(*field(n, q, theta, seed=seed, covariates=covariates), m=m)


def by_differences(blocks, theta, beta, sites):
    """Section 2.2: log likelihood, p1 to p4 of some sites as differences of dense inverses; nothing
    is scaled.
    """
    loglik = 0.0
    p1 = 0.0
    p2 = 0.0
    p3 = np.zeros(blocks.p)
    p4 = np.zeros((blocks.p, blocks.p))
    for site in sites:
        near = [j for j in blocks.neighbours[site] if j >= 0]
        for sign, members in ((1.0, [*near, site]), (-1.0, near)):
            if not members:
                continue
            inverse = np.linalg.inv(covariance_of(blocks.points[members], theta))
            v = blocks.y[members]
            rows = blocks.covariates[members]
            p1 -= sign * np.linalg.slogdet(inverse)[1]
            p2 += sign * v @ inverse @ v
            p3 += sign * rows.T @ inverse @ v
            p4 += sign * rows.T @ inverse @ rows
    loglik = -0.5 * (len(sites) * np.log(2 * np.pi) + p1 + p2 - 2 * beta @ p3 + beta @ p4 @ beta)
    return loglik, p1, p2, p3, p4


def slopes_by_differences(blocks, theta, beta, sites):
    """Section 2.2: gradient (4,) and Fisher information (4, 4) by log theta of some sites, of dense
    inverses.

    Derivatives of the covariance are differences of the eighth order on the log scale, of scipy's
    Bessel function.
    """
    gradient = np.zeros(4)
    fisher = np.zeros((4, 4))
    for site in sites:
        near = [j for j in blocks.neighbours[site] if j >= 0]
        for sign, members in ((1.0, [*near, site]), (-1.0, near)):
            if not members:
                continue
            inverse = np.linalg.inv(covariance_of(blocks.points[members], theta))
            alpha = inverse @ (blocks.y[members] - blocks.covariates[members] @ beta)
            slopes = [inverse @ _slope(blocks.points[members], theta, j) for j in range(4)]
            for j in range(4):
                quadratic = alpha @ _slope(blocks.points[members], theta, j) @ alpha
                gradient[j] += 0.5 * sign * (quadratic - np.trace(slopes[j]))
                for k in range(4):
                    fisher[j, k] += 0.5 * sign * np.trace(slopes[j] @ slopes[k])
    return gradient, fisher


def _slope(points, theta, j):
    """The derivative of the covariance by the logarithm of the j-th parameter."""
    return log_slope(lambda at: covariance_of(points, at), theta, j)


def log_slope(function, theta, j, step=0.02):
    """The derivative of a function of theta by the logarithm of the j-th parameter: differences of
    the eighth order.
    """

    def at(k):
        return function(Theta(*(v * np.exp(k * step * (i == j)) for i, v in enumerate(theta))))

    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    return sum(w * (at(k) - at(-k)) for k, w in weights.items()) / step


def dense_normal(points, rows, y, theta, beta):
    """The log density of all observations at once."""
    lower = np.linalg.cholesky(covariance_of(points, theta))
    e = np.linalg.solve(lower, y - rows @ beta)
    return -0.5 * (len(y) * np.log(2 * np.pi) + e @ e) - np.log(np.diag(lower)).sum()


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Means and standard deviations (k,) of eta."""

    mean: np.ndarray
    sd: np.ndarray


def quadrature_of(target, mode, *, spacing, radius):
    """Moments of eta on a grid in standard deviations of the normal density at the mode, beta
    integrated out.

    On a normal density the rule of trapezoids is right to 2 exp(-2 pi^2 / spacing^2).
    """
    k = mode.eta.size
    reach = int(radius / spacing)
    axis = spacing * np.arange(-reach, reach + 1)
    nodes = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    nodes = nodes[(nodes**2).sum(1) < radius**2]
    points = mode.eta + nodes @ np.linalg.cholesky(np.linalg.inv(mode.precision)).T
    values = []
    for eta in points:
        terms = target.terms(eta, mode.beta, derivatives=False)
        profile = log_likelihood(terms, terms.beta_hat, n=target.sites.n)
        values.append(profile - 0.5 * np.linalg.slogdet(terms.p4)[1] + target.log_prior(eta))
    weights = np.exp(np.array(values) - max(values))
    weights /= weights.sum()
    mean = weights @ points
    return Quadrature(mean, np.sqrt(weights @ (points - mean) ** 2))


THETA = Theta(1.3, 0.8, 1.0, 0.2)
TRUTH, START = Theta(2.0, 2.0, 0.5, 0.5), Theta(1.0, 1.0, 0.5, 1.0)  # of `target` in conftest.py
