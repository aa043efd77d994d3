r"""A Gaussian process with a sum of kernels: of features of source networks, and of the descriptor.

For standardised training gaps,

    y = b_0 + sum_k a_k u_k(x) + g(x) + noise,     b_0 ~ N(0, 2^2),  u_k ~ GP(0, G_k),
    g ~ GP(0, a_g^2 prod_j exp(-D_j / ell_j)),     noise ~ N(0, s^2)

The G_k are Gram matrices with mean diagonal 1 over the training rows. The first is linear in the
networks' predictions; the others are linear in a layer's features, of networks linearised in a
layer, or of electron levels. The D_j are distances divided by their median. The covariance is the
sum of all terms (Rasmussen and Williams, 2006, chapters 2 and 5). theta = (log a_k ..., log a_g,
log ell_j ..., log s) has independent normal priors, informed by the scales of other transfers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

# Prior mean and sd of the logarithms.
PREDICTIONS = (-0.4, 0.7)
GRAM = (-1.0, 0.7)
RESIDUAL = (-1.4, 0.7)
NOISE = (-0.9, 0.5)
LENGTHS = ((0.5, 0.5), (1.2, 0.7))  # of the descriptor, of the size
INTERCEPT_VARIANCE = 4.0
JITTER = 1e-8

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Kernels:
    """Gram matrices and distances between rows a and rows b, each (a, b), at least one of both."""

    grams: tuple[Floats, ...]
    distances: tuple[Floats, ...]

    def covariance(self, theta: Floats) -> Floats:
        """Return the covariance of the noise-free function at theta, (a, b)."""
        total = INTERCEPT_VARIANCE + self.laplacian(theta)
        for log_amplitude, gram in zip(theta, self.grams, strict=False):
            total += np.exp(2 * log_amplitude) * gram
        return total

    def laplacian(self, theta: Floats) -> Floats:
        """Return the covariance of g at theta, (a, b)."""
        k = len(self.grams)
        exponent = np.full(self.distances[0].shape, 2 * theta[k])
        for log_length, distance in zip(theta[k + 1 :], self.distances, strict=False):
            exponent -= np.exp(-log_length) * distance
        result: Floats = np.exp(exponent)
        return result


def prior_of(kernels: Kernels) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the priors of theta."""
    grams = [PREDICTIONS] + [GRAM] * (len(kernels.grams) - 1)
    rows = [*grams, RESIDUAL, *LENGTHS[: len(kernels.distances)], NOISE]
    mean, sd = np.array(rows, dtype=np.float64).T
    return mean, sd


@dataclass(frozen=True, eq=False)
class SumKernelProblem:
    """Kernels between the training rows, and their standardised gaps y (n,)."""

    kernels: Kernels
    y: Floats

    def log_value(self, theta: Floats) -> float:
        """Return log p(y | theta) + log p(theta), -inf if the covariance has no factor."""
        factor, info = self._factor(theta)
        if info != 0:
            return -np.inf
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        return self._value(theta, factor, alpha)

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """Return log p(y | theta) + log p(theta) and its gradient, -inf if there is no factor."""
        parts = self.kernels
        k = len(self.kernels.grams)
        noise = np.exp(2 * theta[-1])
        laplacian = self.kernels.laplacian(theta)
        factor, info = self._factor(theta)
        if info != 0:
            return -np.inf, np.zeros_like(theta)
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        value = self._value(theta, factor, alpha)
        inverse, _ = lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        pull = np.outer(alpha, alpha) - inverse
        mean, sd = prior_of(parts)
        pulled = pull * laplacian
        by_gram = [
            np.exp(2 * t) * np.vdot(pull, gram) for t, gram in zip(theta, parts.grams, strict=False)
        ]
        by_length = [
            0.5 * np.exp(-t) * np.vdot(pulled, distance)
            for t, distance in zip(theta[k + 1 :], parts.distances, strict=False)
        ]
        gradient = np.array([*by_gram, pulled.sum(), *by_length, noise * np.trace(pull)])
        return value, gradient - (theta - mean) / sd**2

    def conditional(
        self, theta: Floats, cross: Kernels, prior_variance: Floats
    ) -> tuple[Floats, Floats]:
        """Return mean and variance (m,) of the noise-free function at new rows.

        `cross` are the kernels (m, n) to the training rows, `prior_variance` (m,) is that of the
        new rows at theta.
        """
        factor, _ = self._factor(theta)
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        c = cross.covariance(theta)
        reduced = solve_triangular(factor, c.T, lower=True, check_finite=False)
        return c @ alpha, np.maximum(prior_variance - (reduced**2).sum(axis=0), 0.0)

    def _value(self, theta: Floats, factor: Floats, alpha: Floats) -> float:
        mean, sd = prior_of(self.kernels)
        z = (theta - mean) / sd
        return float(-0.5 * self.y @ alpha - np.log(np.diag(factor)).sum() - 0.5 * z @ z)

    def _factor(self, theta: Floats) -> tuple[Floats, int]:
        k = self.kernels.covariance(theta)
        k[np.diag_indices(self.y.size)] += np.exp(2 * theta[-1]) + JITTER
        factor, info = lapack.dpotrf(k, lower=1, overwrite_a=1)
        return factor, int(info)
