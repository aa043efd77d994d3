"""Prediction at new points: the conditional normal given the nearest observed ones, for every draw of the parameters.

With A = Cov(Y_J) and c = Cov(Z(s0), Y_J): mean x0 beta + c'A^-1 (Y_J - X_J beta), latent variance sigma2 - c'A^-1 c; a
new observation adds tau2. With beta integrated out, r'p4^-1 r more, r = x0 - X_J'A^-1 c.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from bandgap.inference.vecchia.correlation import correlations
from bandgap.inference.vecchia.exact import covariance_factor
from bandgap.inference.vecchia.likelihood import Theta, matern_constants
from bandgap.inference.vecchia.ordering import Floats, Ints, nearest
from bandgap.inference.vecchia.site_kernels import krige

NEW_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class Observed:
    """What was observed: points (n, q), covariates (n, p), y (n,)."""

    points: Floats
    covariates: Floats
    y: Floats


@dataclass(frozen=True, eq=False)
class Kriged:
    """Mean and variance of the noise-free value at new points, (draw, n) each."""

    mean: Floats
    latent: Floats


def predict(
    observed: Observed,
    thetas: Sequence[Theta],
    betas: Floats,
    points: Floats,
    covariates: Floats,
    *,
    m: int = 0,
    precision_beta: Floats | None = None,
) -> Kriged:
    """Return mean and latent variance at new points (n, q) with covariates (n, p) for each draw of (theta, beta).

    Given the m nearest observed points, all where m is 0. With `precision_beta` (p, p) betas are taken as means of
    N(beta, precision^-1), which is integrated out.
    """
    shape = (len(thetas), len(points))
    mean, latent = np.empty(shape), np.empty(shape)
    wide = np.ascontiguousarray(points, dtype=np.float64)
    every = m <= 0 or m >= len(observed.y)
    for start in range(0, len(points), NEW_AT_ONCE):
        here = slice(start, start + NEW_AT_ONCE)
        places = None if every else nearest(observed.points, wide[here], m)
        for d, (theta, beta) in enumerate(zip(thetas, betas, strict=True)):
            residuals = observed.y - observed.covariates @ beta
            if places is None:
                shift, explained, weights = _from_all(observed, residuals, wide[here], theta)
                rows = weights @ observed.covariates
            else:
                shift, explained, weights = _from_nearest(observed, residuals, wide[here], places, theta)
                rows = np.einsum("nm,nmp->np", weights, observed.covariates[places])
            mean[d, here] = covariates[here] @ beta + shift
            latent[d, here] = theta.sigma2 - explained
            if precision_beta is not None:
                left = covariates[here] - rows
                latent[d, here] += np.einsum("np,np->n", left, np.linalg.solve(precision_beta, left.T).T)
    return Kriged(mean, np.maximum(latent, 0.0))


def _from_all(observed: Observed, residuals: Floats, points: Floats, theta: Theta) -> tuple[Floats, Floats, Floats]:
    own = _correlations(observed.points, observed.points, theta)
    factor, _ = covariance_factor(own, theta)
    cross = theta.sigma2 * _correlations(observed.points, points, theta)
    half = solve_triangular(factor, cross, lower=True)
    weights = solve_triangular(factor, half, lower=True, trans="T").T
    return weights @ residuals, (half**2).sum(axis=0), weights


def _correlations(a: Floats, b: Floats, theta: Theta) -> Floats:
    distances = torch.from_numpy(np.asarray(cdist(a, b)))
    return np.asarray(correlations(distances, theta.rho, theta.nu).numpy(), dtype=np.float64)


def _from_nearest(
    observed: Observed, residuals: Floats, points: Floats, places: Ints, theta: Theta
) -> tuple[Floats, Floats, Floats]:
    found, weights = np.empty((2, len(points))), np.empty(places.shape)
    constants = matern_constants(theta.nu)
    krige(observed.points, residuals, points, places, np.array(theta), constants, weights, found)
    return found[0], found[1], weights
