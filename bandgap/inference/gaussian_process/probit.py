r"""Gaussian process classification with a probit link by expectation propagation.

    P(y = 1 | f) = Phi(f),     f = b_0 + g,     b_0 ~ N(0, 2^2),     g ~ GP(0, k)

k is the kernel of `product_kernel`, with theta = (log a, log ell_1, ...). Expectation propagation
(Rasmussen and Williams, 2006, section 3.6, algorithm 3.5) approximates each Phi(y_i f_i) by a
normal site. All sites are updated together. The cavity distribution of a row, without its site, is
its prediction from all other rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_ndtr

from bandgap.foundation.fixed_blocks import by_fixed_block
from bandgap.inference.gaussian_process.product_kernel import INTERCEPT_VARIANCE, radii

Floats = NDArray[np.float64]

# Prior mean and sd of the logarithms.
AMPLITUDE = (1.0, 1.0)
LENGTH = (1.0, 1.0)
JITTER = 1e-6
TOLERANCE = 1e-6  # on log Z between two updates of all sites
MOST_UPDATES = 100
FULL_UPDATES = 3  # after them, updates are damped
DAMPING = 0.8
LEAST_PRECISION = 1e-10
MOST_STEPS = 25  # of the search for the mode of theta
SEARCH_RANGE = 4.0  # prior standard deviations
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites of expectation propagation (n,), and the approximate log evidence."""

    precision: Floats
    shift: Floats  # precision times mean
    log_evidence: float


@dataclass(frozen=True, eq=False)
class ProbitProblem:
    """Squared distances between the training rows, (n, n) each, and classes y (n,) of -1 or 1."""

    squares: tuple[Floats, ...]
    y: Floats

    @property
    def prior(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the prior of theta."""
        mean, sd = np.array([AMPLITUDE, *[LENGTH] * len(self.squares)], dtype=np.float64).T
        return mean, sd

    def mode(self) -> Floats:
        """Return theta of the largest evidence times prior."""
        mean, sd = self.prior
        state: list[Sites | None] = [None]

        def negative(theta: Floats) -> tuple[float, Floats]:
            sites = self.sites(theta, start=state[0])
            state[0] = sites
            value, gradient = self._log_density(theta, sites)
            return -value, -gradient

        result = minimize(
            negative,
            mean,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(mean - SEARCH_RANGE * sd, mean + SEARCH_RANGE * sd, strict=True)),
            options={"maxiter": MOST_STEPS},
        )
        return np.asarray(result.x, dtype=np.float64)

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """Return log p(y | theta) + log p(theta) up to a constant, and its gradient."""
        return self._log_density(theta, self.sites(theta))

    def sites(self, theta: Floats, *, start: Sites | None = None) -> Sites:
        """Return the sites at theta, updated from those of `start` or from none."""
        k = self._covariance(theta)
        n = self.y.size
        precision = np.zeros(n) if start is None else start.precision
        shift = np.zeros(n) if start is None else start.shift
        previous = -np.inf
        for update in range(MOST_UPDATES):
            factor, mean, variance = _posterior(k, precision, shift)
            cavity_precision = np.maximum(1.0 / variance - precision, LEAST_PRECISION)
            cavity_mean = (mean / variance - shift) / cavity_precision
            cavity_variance = 1.0 / cavity_precision
            root = np.sqrt(1.0 + cavity_variance)
            z = self.y * cavity_mean / root
            log_z = log_ndtr(z)
            total = precision + cavity_precision
            log_evidence = float(
                log_z.sum()
                - np.log(np.diag(factor)).sum()
                + 0.5 * np.log1p(precision / cavity_precision).sum()
                + 0.5 * shift @ mean
                - 0.5 * (shift**2 / total).sum()
                + 0.5
                * (
                    cavity_mean * cavity_precision * (precision * cavity_mean - 2.0 * shift) / total
                ).sum()
            )
            if abs(log_evidence - previous) < TOLERANCE:
                break
            previous = log_evidence
            ratio = np.exp(-0.5 * z**2 - 0.5 * _LOG_2PI - log_z)
            tilted_mean = cavity_mean + self.y * cavity_variance * ratio / root
            tilted_variance = cavity_variance - cavity_variance**2 * ratio * (z + ratio) / root**2
            new_precision = np.maximum(1.0 / tilted_variance - cavity_precision, LEAST_PRECISION)
            new_shift = tilted_mean / tilted_variance - cavity_mean * cavity_precision
            step = 1.0 if update < FULL_UPDATES else DAMPING
            precision = precision + step * (new_precision - precision)
            shift = shift + step * (new_shift - shift)
        return Sites(precision, shift, log_evidence)

    def left_out(self, theta: Floats, sites: Sites) -> tuple[Floats, Floats]:
        """Return mean and variance (n,) of f at every row given all other rows."""
        k = self._covariance(theta)
        _, mean, variance = _posterior(k, sites.precision, sites.shift)
        precision = np.maximum(1.0 / variance - sites.precision, LEAST_PRECISION)
        return (mean / variance - sites.shift) / precision, 1.0 / precision

    def conditional(
        self, theta: Floats, sites: Sites, squares: tuple[Floats, ...]
    ) -> tuple[Floats, Floats]:
        """Return mean and variance (m,) of f at new rows.

        `squares` are the squared distances (m, n) to the training rows.
        """
        k = self._covariance(theta)
        root = np.sqrt(sites.precision)
        factor = _factor(k, root)
        weights = sites.shift - root * cho_solve((factor, True), root * (k @ sites.shift))
        prior = INTERCEPT_VARIANCE + np.exp(2 * theta[0])

        def conditional_at(*new_squares: Floats) -> tuple[Floats, Floats]:
            c = _kernel(theta, new_squares)
            reduced = solve_triangular(factor, root[:, None] * c.T, lower=True, check_finite=False)
            return c @ weights, np.maximum(prior - (reduced**2).sum(axis=0), 0.0)

        mean, variance = by_fixed_block(conditional_at, *squares)
        return mean, variance

    def _covariance(self, theta: Floats) -> Floats:
        k = _kernel(theta, self.squares)
        k[np.diag_indices(self.y.size)] += JITTER
        return k

    def _log_density(self, theta: Floats, sites: Sites) -> tuple[float, Floats]:
        """The gradient is that of Rasmussen and Williams, eq. 5.27."""
        r = radii(theta, self.squares)
        fall = np.exp(2 * theta[0] - r)
        correlated = (1.0 + r) * fall
        k = self._covariance(theta)
        root = np.sqrt(sites.precision)
        factor = _factor(k, root)
        half = solve_triangular(factor, np.diag(root), lower=True, check_finite=False)
        inverse = half.T @ half
        b = sites.shift - inverse @ (k @ sites.shift)
        pull = np.outer(b, b) - inverse
        by_length = [
            1.5 * np.exp(-2 * t) * np.vdot(pull * fall, square)
            for t, square in zip(theta[1:], self.squares, strict=True)
        ]
        mean, sd = self.prior
        z = (theta - mean) / sd
        gradient = np.array([np.vdot(pull, correlated), *by_length])
        return sites.log_evidence - float(0.5 * z @ z), gradient - z / sd


def _kernel(theta: Floats, squares: tuple[Floats, ...]) -> Floats:
    r = radii(theta, squares)
    result: Floats = INTERCEPT_VARIANCE + (1.0 + r) * np.exp(2 * theta[0] - r)
    return result


def _factor(k: Floats, root: Floats) -> Floats:
    """Return the Cholesky factor of 1 + root k root."""
    matrix = root[:, None] * k * root
    matrix[np.diag_indices(root.size)] += 1.0
    return np.asarray(cholesky(matrix, lower=True, check_finite=False))


def _posterior(k: Floats, precision: Floats, shift: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the factor, and mean and variance (n,) of f given the sites."""
    root = np.sqrt(precision)
    factor = _factor(k, root)
    reduced = solve_triangular(factor, root[:, None] * k, lower=True, check_finite=False)
    mean = k @ shift - reduced.T @ (reduced @ shift)
    return factor, mean, np.diag(k) - (reduced**2).sum(axis=0)
