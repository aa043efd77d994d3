"""Prediction at new points: the conditional normal given observed points.

Let J be the observed points used for the new point s0, A = Cov(Y_J), c = Cov(Z(s0), Y_J) and r =
Y_J - X_J beta. The mean is x0'beta + c'A^-1 r, the variance of the noise-free value is sigma2 -
c'A^-1 c. A new observation adds tau2. With beta integrated out, the variance is larger by q'p4^-1
q, q = x0 - X_J'A^-1 c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

from bandgap.research.vecchia.correlation import HALVES, half_integer
from bandgap.research.vecchia.exact import covariance_factor
from bandgap.research.vecchia.kernels import correlate, krige
from bandgap.research.vecchia.likelihood import Theta, matern_constants
from bandgap.research.vecchia.ordering import Floats, Ints, nearest

CHUNK = 2048  # new points predicted together


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations: points (n, q), covariates (n, p), y (n,)."""

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
    """Return mean and variance of the noise-free value at new points for each draw.

    Parameters
    ----------
    observed
        The observations.
    thetas, betas
        Draws of the parameters, betas (draw, p).
    points, covariates
        New points (n, q) and their covariates (n, p).
    m
        Nearest observed points that are used; 0: all.
    precision_beta
        If given, (p, p), beta is integrated out over N(betas, precision_beta^-1).
    """
    shape = (len(thetas), len(points))
    mean = np.empty(shape)
    latent = np.empty(shape)
    points = np.ascontiguousarray(points, dtype=np.float64)
    uses_all = m <= 0 or m >= len(observed.y)
    for start in range(0, len(points), CHUNK):
        block = slice(start, start + CHUNK)
        places = None if uses_all else nearest(observed.points, points[block], m)
        sums, rows = (
            _from_all(observed, thetas, betas, points[block])
            if places is None
            else _from_nearest(observed, thetas, betas, points[block], places)
        )
        mean[:, block] = betas @ covariates[block].T + sums[0]
        latent[:, block] = np.array([theta.sigma2 for theta in thetas])[:, None] - sums[1]
        if precision_beta is not None:
            latent[:, block] += _squares(covariates[block] - rows, np.linalg.inv(precision_beta))
    return Kriged(mean, np.maximum(latent, 0.0))


def _from_all(
    observed: Observed, thetas: Sequence[Theta], betas: Floats, points: Floats
) -> tuple[Floats, Floats]:
    """Return c'A^-1 r and c'A^-1 c (2, draw, n), and c'A^-1 X (draw, n, p)."""
    sums = np.empty((2, len(thetas), len(points)))
    rows = np.empty((len(thetas), len(points), observed.covariates.shape[1]))
    for d, (theta, beta) in enumerate(zip(thetas, betas, strict=True)):
        lower, _ = covariance_factor(_correlations(observed.points, observed.points, theta), theta)
        cross = theta.sigma2 * _correlations(observed.points, points, theta)
        residual = observed.y - observed.covariates @ beta
        half = solve_triangular(lower, cross, lower=True)
        weights = solve_triangular(lower, half, lower=True, trans="T").T
        sums[:, d] = weights @ residual, (half**2).sum(axis=0)
        rows[d] = weights @ observed.covariates
    return sums, rows


def _squares(vectors: Floats, inverse: NDArray[np.floating[Any]]) -> Floats:
    """Return v'V v (draw, n) of vectors v (draw, n, p)."""
    result: Floats = np.einsum("dnp,dnp->dn", vectors, vectors @ inverse)
    return result


def _correlations(a: Floats, b: Floats, theta: Theta) -> Floats:
    distances = np.asarray(cdist(a, b), dtype=np.float64)
    if theta.nu in HALVES:
        return np.asarray(
            half_integer(torch.from_numpy(distances), theta.rho, theta.nu)[0].numpy(),
            dtype=np.float64,
        )
    values = np.empty((3, distances.size))
    correlate(distances.ravel(), np.array(theta), matern_constants(theta.nu), False, values)
    return np.asarray(values[0].reshape(distances.shape), dtype=np.float64)


def _from_nearest(
    observed: Observed, thetas: Sequence[Theta], betas: Floats, points: Floats, places: Ints
) -> tuple[Floats, Floats]:
    """Return the sums of `_from_all` from the observed points `places` (n, m) of each new point."""
    sums = np.empty((2, len(thetas), len(points)))
    rows = np.empty((len(thetas), len(points), observed.covariates.shape[1]))
    constants = np.array([matern_constants(theta.nu) for theta in thetas])
    data = np.ascontiguousarray(observed.covariates), np.asarray(observed.y, dtype=np.float64)
    draws = np.array(thetas), np.ascontiguousarray(betas, dtype=np.float64)
    krige(observed.points, *data, points, places, *draws, constants, sums, rows)
    return sums, rows
