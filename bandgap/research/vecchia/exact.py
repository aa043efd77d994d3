"""The exact likelihood of a Gaussian process, from one Cholesky factor of all sites."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, lapack
from scipy.spatial.distance import pdist, squareform

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia.kernels import correlate, fill_covariance
from bandgap.research.vecchia.likelihood import (
    N_THETA,
    SentByFields,
    Terms,
    Theta,
    check_theta,
    matern_constants,
)
from bandgap.research.vecchia.ordering import Floats, Ints

JITTER = 1e-8  # share of sigma2, as in Vecchia's likelihood


@dataclass(frozen=True, eq=False)
class DenseSites(SentByFields):
    """All sites: points (n, q), covariates (n, p), y (n,).

    A likelihood takes time n^3 and the memory of a few matrices (n, n).
    """

    points: Floats
    covariates: Floats
    y: Floats

    @property
    def n(self) -> int:
        """Number of sites."""
        return int(self.y.size)

    @property
    def p(self) -> int:
        """Number of covariates."""
        return int(self.covariates.shape[1])

    @cached_property
    def pairs(self) -> Floats:
        """Packed distances of pairs, row after row above the diagonal."""
        return np.asarray(pdist(self.points), dtype=np.float64)

    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of all sites; raises InputError for a batch."""
        check_theta(theta)
        if index is not None:
            raise InputError(
                "the exact likelihood is no sum over sites: it has no batches. Give index = None."
            )
        factor, jitters = self._factor(theta)
        residual = self.y - self.covariates @ beta
        right_sides = np.column_stack([residual, self.y, self.covariates])
        solved = cho_solve((factor, True), right_sides, check_finite=False)  # the factor is finite
        p4 = self.covariates.T @ solved[:, 2:]
        p3 = self.covariates.T @ solved[:, 1]
        log_det = 2.0 * float(np.log(np.diag(factor)).sum())
        quadratic = float(residual @ solved[:, 0])
        grad = np.zeros(N_THETA)
        fisher = np.zeros((N_THETA, N_THETA))
        if derivatives:
            correlations = np.empty((3, self.pairs.size))
            correlate(
                self.pairs, np.array(theta), matern_constants(theta.nu), free_nu, correlations
            )
            value, *slopes = (
                squareform(part, checks=False) for part in correlations[: 2 + free_nu]
            )
            np.fill_diagonal(value, 1.0)
            grad, fisher = _derivatives(factor, solved[:, 0], value, slopes, theta, free_nu=free_nu)
        return Terms(
            loglik=-0.5 * (self.n * np.log(2 * np.pi) + log_det + quadratic),
            grad_beta=p3 - p4 @ beta,
            grad_log_theta=grad,
            fisher_log_theta=fisher,
            p1=log_det,
            p2=float(self.y @ solved[:, 1]),
            p3=p3,
            p4=p4,
            jitters=jitters,
        )

    def _factor(self, theta: Theta) -> tuple[Floats, int]:
        """Return the result of `covariance_factor` in memory that the next call overwrites."""
        constants = matern_constants(theta.nu)
        return first_factor(lambda extra: self._covariance(theta, constants, extra), self.n, theta)

    def _covariance(self, theta: Theta, constants: Floats, extra: float) -> Floats:
        matrix, row = self._work
        fill_covariance(self.pairs, np.array(theta), constants, extra, row, matrix)
        return matrix.T

    @cached_property
    def _work(self) -> tuple[Floats, Floats]:
        """Arrays (n, n) and (3, n) for reuse: allocating them takes as long as filling them."""
        return np.zeros((self.n, self.n)), np.empty((3, self.n))

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Raise InputError, because the exact likelihood is no sum over sites."""
        del theta, beta, free_nu
        raise InputError(
            "the exact likelihood is no sum over sites: there are no gradients of sites."
        )


def covariance_factor(correlation: Floats, theta: Theta) -> tuple[Floats, int]:
    """Return the lower Cholesky factor of sigma2 M + tau2 I, and 1 if it needed the jitter, else 0.

    Raises InputError if there is none with the jitter either.
    """

    def covariance(extra: float) -> Floats:
        matrix = theta.sigma2 * correlation
        matrix.flat[:: len(matrix) + 1] += theta.tau2 + extra
        return matrix.T

    return first_factor(covariance, len(correlation), theta)


def first_factor(covariance: Callable[[float], Floats], n: int, theta: Theta) -> tuple[Floats, int]:
    """Return the lower Cholesky factor of `covariance(extra)`, and 1 if it needed the jitter.

    `extra` is added to the diagonal: 0, then the jitter. The factor overwrites the lower triangle
    of the matrix. Raises InputError if there is no factor.
    """
    for extra in (0.0, JITTER * theta.sigma2):
        factor, failed = lapack.dpotrf(covariance(extra), lower=1, clean=0, overwrite_a=1)
        # LAPACK does not report a factor that is not finite.
        if not failed and np.isfinite(factor[-1, -1]):
            return factor, int(extra > 0)
    raise InputError(
        f"the covariance of {n} points has no Cholesky factor at {theta}: points may be the same "
        "and the nugget near 0. Merge such rows, or raise the nugget."
    )


def _derivatives(
    factor: Floats,
    alpha: Floats,
    value: Floats,
    slopes: list[Floats],
    theta: Theta,
    *,
    free_nu: bool,
) -> tuple[Floats, Floats]:
    """Return gradient and Fisher information by log theta; alpha = Sigma^-1 (y - X beta)."""
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    places = [0, 1, *([2] if free_nu else []), 3]
    grad = np.zeros(N_THETA)
    fisher = np.zeros((N_THETA, N_THETA))
    derivatives = [theta.sigma2 * m for m in (value, *slopes)]
    products = [inverse @ m for m in derivatives] + [theta.tau2 * inverse]
    quadratic = [float(alpha @ m @ alpha) for m in derivatives]
    quadratic.append(theta.tau2 * float(alpha @ alpha))
    for i, j in enumerate(places):
        grad[j] = 0.5 * (quadratic[i] - float(np.trace(products[i])))
        for k in range(i + 1):
            fisher[j, places[k]] = fisher[places[k], j] = 0.5 * float(
                (products[i] * products[k].T).sum()
            )
    return grad, fisher
