r"""A Gaussian process with a distance and a length for each block of the descriptor.

For standardised training gaps,

    y = b_0 + g(x) + noise,     b_0 ~ N(0, 2^2),  noise ~ N(0, s^2),
    g ~ GP(0, a^2 (1 + r) exp(-r)),     r^2 = 3 sum_j (D_j / ell_j)^2

This is a Matern kernel of smoothness 3/2. D_j is the distance in block j divided by its median
(Rasmussen and Williams, 2006, chapters 2, 4 and 5). theta = (log a, log ell_1 ..., log s) has
independent normal priors. A block with a long length has little influence.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

# Prior mean and sd of the logarithms.
AMPLITUDE = (0.0, 1.0)
LENGTH = (1.0, 1.0)
NOISE = (-1.2, 0.7)
INTERCEPT_VARIANCE = 4.0
JITTER = 1e-8

Floats = NDArray[np.float64]


def prior_of(n_distances: int) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the priors of theta for a number of distances."""
    mean, sd = np.array([AMPLITUDE, *[LENGTH] * n_distances, NOISE], dtype=np.float64).T
    return mean, sd


@dataclass(frozen=True, eq=False)
class ProductKernelProblem:
    """Squared distances between the training rows, (n, n) each, and standardised gaps y (n,)."""

    squares: tuple[Floats, ...]
    y: Floats

    def log_value(self, theta: Floats) -> float:
        """Return log p(y | theta) + log p(theta) + constant, -inf if there is no factor."""
        factor, info = self._factor(covariance(theta, self.squares), theta)
        if info != 0:
            return -np.inf
        return self._value(theta, factor, self._solved(factor))

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """Return log p(y | theta) + log p(theta) up to a constant, and its gradient."""
        r = radii(theta, self.squares)
        fall = np.exp(2 * theta[0] - r)
        correlated = (1.0 + r) * fall
        factor, info = self._factor(correlated + INTERCEPT_VARIANCE, theta)
        if info != 0:
            return -np.inf, np.zeros_like(theta)
        alpha = self._solved(factor)
        value = self._value(theta, factor, alpha)
        inverse, _ = lapack.dpotri(factor, lower=1)
        pull = np.outer(alpha, alpha) - np.tril(inverse) - np.tril(inverse, -1).T
        mean, sd = prior_of(len(self.squares))
        fall *= pull
        by_length = [
            1.5 * np.exp(-2 * t) * np.vdot(fall, square)
            for t, square in zip(theta[1:], self.squares, strict=False)
        ]
        gradient = np.array(
            [np.vdot(pull, correlated), *by_length, np.exp(2 * theta[-1]) * np.trace(pull)]
        )
        return value, gradient - (theta - mean) / sd**2

    def conditional(self, theta: Floats, squares: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Return mean and variance (m,) of the noise-free function at new rows.

        `squares` are the squared distances (m, n) to the training rows.
        """
        factor, _ = self._factor(covariance(theta, self.squares), theta)
        alpha = self._solved(factor)
        prior = INTERCEPT_VARIANCE + np.exp(2 * theta[0])
        c = covariance(theta, squares)
        reduced = solve_triangular(factor, c.T, lower=True, check_finite=False)
        return c @ alpha, np.maximum(prior - (reduced**2).sum(axis=0), 0.0)

    def left_out(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (n,) of every row's y, with noise, given all other rows.

        They are computed from the inverse of the covariance (Rasmussen and Williams, 2006, eqs.
        5.10 to 5.12).
        """
        factor, _ = self._factor(covariance(theta, self.squares), theta)
        inverse, _ = lapack.dpotri(factor, lower=1)
        variances = 1.0 / np.diag(inverse)
        return self.y - self._solved(factor) * variances, variances

    def _value(self, theta: Floats, factor: Floats, alpha: Floats) -> float:
        mean, sd = prior_of(len(self.squares))
        z = (theta - mean) / sd
        return float(-0.5 * self.y @ alpha - np.log(np.diag(factor)).sum() - 0.5 * z @ z)

    def _solved(self, factor: Floats) -> Floats:
        alpha, _ = lapack.dpotrs(factor, self.y, lower=1)
        return np.asarray(alpha, dtype=np.float64)

    def _factor(self, k: Floats, theta: Floats) -> tuple[Floats, int]:
        k[np.diag_indices(self.y.size)] += np.exp(2 * theta[-1]) + JITTER
        factor, info = lapack.dpotrf(k, lower=1, overwrite_a=1)
        return factor, int(info)


def radii(theta: Floats, squares: tuple[Floats, ...]) -> Floats:
    """Return r (a, b) at theta."""
    total = np.zeros_like(squares[0])
    for log_length, square in zip(theta[1:], squares, strict=False):
        total += 3.0 * np.exp(-2 * log_length) * square
    return np.sqrt(total, out=total)


def covariance(theta: Floats, squares: tuple[Floats, ...]) -> Floats:
    """Return the covariance (a, b) of the noise-free function at theta."""
    r = radii(theta, squares)
    result: Floats = INTERCEPT_VARIANCE + (1.0 + r) * np.exp(2 * theta[0] - r)
    return result
