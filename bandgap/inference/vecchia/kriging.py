"""Prediction at new points: the conditional normal given the nearest observed ones, for every draw of the parameters.

With A = Cov(Y_J) and c = Cov(Z(s0), Y_J): mean x0 beta + c'A^-1 (Y_J - X_J beta), latent variance sigma2 - c'A^-1 c; a
new observation adds tau2. With beta integrated out, r'p4^-1 r more, r = x0 - X_J'A^-1 c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from bandgap.foundation.fixed_blocks import by_fixed_block
from bandgap.inference.vecchia.correlation import HALVES, half_integer
from bandgap.inference.vecchia.exact import covariance_factor
from bandgap.inference.vecchia.likelihood import Theta, matern_constants
from bandgap.inference.vecchia.ordering import Floats, Ints, nearest
from bandgap.inference.vecchia.pair_kernels import correlate
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
        found, rows = (
            _from_all(observed, thetas, betas, wide[here])
            if places is None
            else _from_nearest(observed, thetas, betas, wide[here], places)
        )
        (trend,) = by_fixed_block(lambda x: (betas @ x.T,), covariates[here])
        mean[:, here] = trend + found[0]
        latent[:, here] = np.array([theta.sigma2 for theta in thetas])[:, None] - found[1]
        if precision_beta is not None:
            latent[:, here] += _squares(covariates[here] - rows, np.linalg.inv(precision_beta))
    return Kriged(mean, np.maximum(latent, 0.0))


def _from_all(
    observed: Observed, thetas: Sequence[Theta], betas: Floats, points: Floats
) -> tuple[Floats, Floats]:
    """Return c'A^-1 r and c'A^-1 c (2, draw, n), and c'A^-1 X (draw, n, p)."""
    found = np.empty((2, len(thetas), len(points)))
    rows = np.empty((len(thetas), len(points), observed.covariates.shape[1]))
    for d, (theta, beta) in enumerate(zip(thetas, betas, strict=True)):
        lower, _ = covariance_factor(_correlations(observed.points, observed.points, theta), theta)
        cross = theta.sigma2 * _correlations(observed.points, points, theta)
        left = observed.y - observed.covariates @ beta
        of_mean, of_variance, of_trend = by_fixed_block(
            partial(_solved, lower, left, observed.covariates), cross.T
        )
        found[:, d] = of_mean, of_variance
        rows[d] = of_trend.T
    return found, rows


def _solved(
    lower: Floats, left: Floats, covariates: Floats, cross: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return c'A^-1 r and c'A^-1 c (n,), and c'A^-1 X (p, n), for the factor of A and covariances c (n, observed)."""
    half = solve_triangular(lower, cross.T, lower=True)
    weights = solve_triangular(lower, half, lower=True, trans="T").T
    return weights @ left, (half**2).sum(axis=0), (weights @ covariates).T


def _squares(left: Floats, inverse: NDArray[np.floating[Any]]) -> Floats:
    """Return r'V r (draw, n) of vectors r (draw, n, p)."""
    return by_fixed_block(
        lambda r: (np.einsum("ndp,ndp->dn", r, r @ inverse),), left.transpose(1, 0, 2)
    )[0]


def _correlations(a: Floats, b: Floats, theta: Theta) -> Floats:
    distances = np.asarray(cdist(a, b), dtype=np.float64)
    if theta.nu in HALVES:
        return np.asarray(
            half_integer(torch.from_numpy(distances), theta.rho, theta.nu)[0].numpy(),
            dtype=np.float64,
        )
    found = np.empty((3, distances.size))
    correlate(distances.ravel(), np.array(theta), matern_constants(theta.nu), False, found)
    return np.asarray(found[0].reshape(distances.shape), dtype=np.float64)


def _from_nearest(
    observed: Observed, thetas: Sequence[Theta], betas: Floats, points: Floats, places: Ints
) -> tuple[Floats, Floats]:
    """Return what `_from_all` does, of each point's own observed ones `places` (n, m)."""
    found = np.empty((2, len(thetas), len(points)))
    rows = np.empty((len(thetas), len(points), observed.covariates.shape[1]))
    constants = np.array([matern_constants(theta.nu) for theta in thetas])
    data = np.ascontiguousarray(observed.covariates), np.asarray(observed.y, dtype=np.float64)
    draws = np.array(thetas), np.ascontiguousarray(betas, dtype=np.float64)
    krige(observed.points, *data, points, places, *draws, constants, found, rows)
    return found, rows
