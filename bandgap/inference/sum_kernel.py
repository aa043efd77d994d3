r"""A Gaussian process whose kernel is a sum: what a source network's features say linearly, and what they leave open.

In units of the training gaps' standard deviation,

    y = b_0 + m(x)'b + phi(x)'w + g(x) + noise,   b_0 ~ N(0, 2^2), b_j ~ N(0, 1), w ~ N(0, s_lin^2 / mean |phi|^2 I),
    g ~ GP(0, s_lap^2 exp(-|x - x'|_1 / (ell D))),   noise ~ N(0, s_noise^2)

so that K = 4 + M M' + s_lin^2 G + s_lap^2 exp(-D_ij / ell) + s_noise^2 I with M the standardised means, G the Gram
matrix of phi with mean diagonal 1 and D_ij the city-block distances over their median D (Rasmussen and Williams, 2006,
chapters 2 and 5). theta = (log s_lin, log s_lap, log ell, log s_noise) have normal priors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

PRIOR_MEAN = np.array([0.0, -0.7, 1.0, -0.9])
PRIOR_SD = np.array([1.5, 1.0, 1.0, 0.7])
INTERCEPT_VARIANCE = 4.0
JITTER = 1e-8

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Kernels:
    """The parts of the covariance between rows a and rows b: means (a, j) and (b, j), Gram (a, b), distances (a, b)."""

    fixed: Floats  # 4 + M_a M_b'
    gram: Floats
    distances: Floats

    def covariance(self, theta: Floats) -> Floats:
        """Return the covariance of the noise-free function at theta (4,), (a, b)."""
        lin, lap, ell = np.exp(2 * theta[0]), np.exp(2 * theta[1]), np.exp(-theta[2])
        result: Floats = self.fixed + lin * self.gram + lap * np.exp(-ell * self.distances)
        return result


@dataclass(frozen=True, eq=False)
class SumKernelProblem:
    """Training rows: kernels among them and gaps y (n,) with mean 0 and variance 1."""

    kernels: Kernels
    y: Floats

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """Return log p(y | theta) + log p(theta) and its gradient (4,); -inf where the covariance has no factor."""
        n, parts = self.y.size, self.kernels
        lin, lap, noise = np.exp(2 * theta[0]), np.exp(2 * theta[1]), np.exp(2 * theta[3])
        scaled = np.exp(-theta[2]) * parts.distances
        laplacian = lap * np.exp(-scaled)
        k = parts.fixed + lin * parts.gram + laplacian
        k[np.diag_indices(n)] += noise + JITTER
        factor, info = lapack.dpotrf(k, lower=1, overwrite_a=0)
        if info != 0:
            return -np.inf, np.zeros(4)
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        pull = np.outer(alpha, alpha) - inverse
        z = (theta - PRIOR_MEAN) / PRIOR_SD
        value = -0.5 * self.y @ alpha - np.log(np.diag(factor)).sum() - 0.5 * z @ z
        gradient = np.array(
            [
                lin * np.vdot(pull, parts.gram),
                np.vdot(pull, laplacian),
                0.5 * np.vdot(pull, laplacian * scaled),
                noise * np.trace(pull),
            ]
        )
        return float(value), gradient - z / PRIOR_SD

    def conditional(self, theta: Floats, cross: Kernels, prior_variance: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (m,) of the noise-free function at new rows, given kernels (m, n) to training rows.

        `prior_variance` (m,) is the diagonal of the new rows' own covariance at theta.
        """
        k = self.kernels.covariance(theta)
        k[np.diag_indices(self.y.size)] += np.exp(2 * theta[3]) + JITTER
        factor, _ = lapack.dpotrf(k, lower=1, overwrite_a=1)
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        c = cross.covariance(theta)
        reduced = solve_triangular(factor, c.T, lower=True, check_finite=False)
        return c @ alpha, np.maximum(prior_variance - (reduced**2).sum(axis=0), 0.0)
