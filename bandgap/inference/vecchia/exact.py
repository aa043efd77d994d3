"""The exact likelihood of a Gaussian process with the terms of a Vecchia one, by one Cholesky factor of all sites."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.linalg import cho_solve, lapack
from scipy.spatial.distance import cdist

from bandgap.foundation.errors import InputError
from bandgap.inference.vecchia.correlation import correlations, log_slopes
from bandgap.inference.vecchia.likelihood import N_THETA, Terms, Theta, check_theta
from bandgap.inference.vecchia.ordering import Floats, Ints

JITTER = 1e-8  # of sigma2, as a site's of the Vecchia likelihood


@dataclass(frozen=True, eq=False)
class DenseSites:
    """All sites at once: points (n, q), covariates (n, p), y (n,). Costs n^3 and holds a few matrices (n, n)."""

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
    def distances(self) -> Floats:
        """Distances (n, n)."""
        return np.asarray(cdist(self.points, self.points), dtype=np.float64)

    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of all sites; raises InputError for a batch, which an exact likelihood does not have."""
        check_theta(theta)
        if index is not None:
            raise InputError("the exact likelihood is no sum over sites: it has no batches. Give index = None.")
        slopes: list[Floats] = []
        if derivatives:
            found = log_slopes(torch.from_numpy(self.distances), theta.rho, theta.nu, free_nu=free_nu)
            value, *slopes = (part.numpy() for part in found)
        else:
            value = correlations(torch.from_numpy(self.distances), theta.rho, theta.nu).numpy()
        factor, jitters = covariance_factor(value, theta)
        residual = self.y - self.covariates @ beta
        wide = np.column_stack([residual, self.y, self.covariates])
        solved = cho_solve((factor, True), wide)
        p4 = self.covariates.T @ solved[:, 2:]
        p3 = self.covariates.T @ solved[:, 1]
        log_det = 2.0 * float(np.log(np.diag(factor)).sum())
        quadratic = float(residual @ solved[:, 0])
        grad, fisher = np.zeros(N_THETA), np.zeros((N_THETA, N_THETA))
        if derivatives:
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

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Raise InputError: an exact likelihood is no sum over sites."""
        del theta, beta, free_nu
        raise InputError("the exact likelihood is no sum over sites: no site has a gradient of its own.")


def covariance_factor(correlation: Floats, theta: Theta) -> tuple[Floats, int]:
    """Return the lower Cholesky factor of sigma2 M + tau2 I, and whether it needed the jitter.

    Raises InputError where there is none even so.
    """
    covariance = theta.sigma2 * correlation
    diagonal = np.diag_indices_from(covariance)
    for extra in (0.0, JITTER * theta.sigma2):
        matrix = covariance.copy()
        matrix[diagonal] += theta.tau2 + extra
        factor, failed = lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
        if not failed:
            return factor, int(extra > 0)
    raise InputError(
        f"the covariance of {len(correlation)} points has no Cholesky factor at {theta}: points may be the same and "
        "the nugget near 0. Merge such rows, or raise the nugget."
    )


def _derivatives(
    factor: Floats, alpha: Floats, value: Floats, slopes: list[Floats], theta: Theta, *, free_nu: bool
) -> tuple[Floats, Floats]:
    """Return gradient and Fisher information by log theta; alpha = Sigma^-1 (y - X beta)."""
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    places = [0, 1, *([2] if free_nu else []), 3]
    grad, fisher = np.zeros(N_THETA), np.zeros((N_THETA, N_THETA))
    moved = [theta.sigma2 * m for m in (value, *slopes)]
    products = [inverse @ m for m in moved] + [theta.tau2 * inverse]
    quadratic = [float(alpha @ m @ alpha) for m in moved] + [theta.tau2 * float(alpha @ alpha)]
    for i, j in enumerate(places):
        grad[j] = 0.5 * (quadratic[i] - float(np.trace(products[i])))
        for k in range(i + 1):
            fisher[j, places[k]] = fisher[places[k], j] = 0.5 * float((products[i] * products[k].T).sum())
    return grad, fisher
