"""Vecchia's likelihood: every observation given its nearest earlier ones (Vecchia 1988).

    Y(s) = x(s)'beta + Z(s) + e,     Cov Z = sigma2 M(distance / rho),     e ~ N(0, tau2)

It is the density of a multivariate normal distribution; with m = n - 1 neighbours it is the exact
likelihood. Sums over a batch of b sites are scaled by n / b, so value, gradient and Fisher
information are unbiased.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np
from scipy.special import digamma, gammaln

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia.correlation import MOST_NU
from bandgap.research.vecchia.kernels import add_sites, correlate, pack_distances
from bandgap.research.vecchia.ordering import Floats, Ints, Order, earlier_neighbours, site_order

PARAMETERS: Final = ("sigma2", "rho", "nu", "tau2")
N_THETA: Final = len(PARAMETERS)
MAX_STORED_BYTES: Final = 2**28  # most memory for stored distances
SHARING: Final = 20  # least number of pairs for each distinct distance whose values are shared
NO_ROWS: Final = np.empty((0, 0))


class Theta(NamedTuple):
    """Variance sigma2, range rho, smoothness nu and nugget tau2, all above 0."""

    sigma2: float
    rho: float
    nu: float
    tau2: float


@dataclass(frozen=True, eq=False)
class Terms:
    """Log likelihood of a batch with gradients, information and p1 to p4, scaled by n / batch.

    Gradient (4,) and Fisher information (4, 4) by theta are on the log scale; for a fixed nu they
    are 0. loglik is -(n log 2 pi + p1 + p2 - 2 beta'p3 + beta'p4 beta) / 2. `jitters` is the number
    of sites whose covariance had no factor without the jitter.
    """

    loglik: float
    grad_beta: Floats
    grad_log_theta: Floats
    fisher_log_theta: Floats
    p1: float
    p2: float
    p3: Floats
    p4: Floats
    jitters: int

    @property
    def beta_hat(self) -> Floats:
        """The beta (p,) that maximises the likelihood at this theta."""
        return np.asarray(np.linalg.solve(self.p4, self.p3), dtype=np.float64)


class Sites(Protocol):
    """Observations whose likelihood is a sum over sites, as samplers and searches use them."""

    @property
    def n(self) -> int: ...
    @property
    def p(self) -> int: ...
    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of the sites `index`, None for all."""
        ...

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Return the gradient of every site by log theta and beta, (n, 4 + p), not scaled."""
        ...


class SentByFields:
    """A dataclass of which other processes get the fields only, not the cached arrays.

    Some cached arrays are overwritten, and arrays from another process may be read-only.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(cast(Any, self))}


@dataclass(frozen=True, eq=False)
class Blocks(SentByFields):
    """Sites in their order: points (n, q), covariates (n, p), y (n,) and neighbours (n, m).

    Neighbours are -1 if there are fewer than m. `order` (n,) are the places of the sites in the
    user's rows.
    """

    points: Floats
    covariates: Floats
    y: Floats
    neighbours: Ints
    order: Ints

    @property
    def n(self) -> int:
        """Number of sites."""
        return int(self.y.size)

    @property
    def p(self) -> int:
        """Number of covariates."""
        return int(self.covariates.shape[1])

    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of the sites `index` (batch,), None for all.

        Without `free_nu` a smoothness of 0.5, 1.5 or 2.5 needs no integral. Raises InputError for
        parameters that are not above 0.
        """
        check_theta(theta)
        sites = np.arange(self.n) if index is None else np.asarray(index, dtype=np.int64)
        sums = self._sums(
            sites, theta, beta, free_nu=free_nu, derivatives=derivatives, site_gradients=NO_ROWS
        )
        scalars, grad, fisher, p3, p4 = sums
        share = self.n / len(sites)
        return Terms(
            loglik=float(share * scalars[0]),
            grad_beta=share * (p3 - p4 @ beta),
            grad_log_theta=share * grad,
            fisher_log_theta=share * fisher,
            p1=float(share * scalars[1]),
            p2=float(share * scalars[2]),
            p3=share * p3,
            p4=share * p4,
            jitters=int(scalars[3]),
        )

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Return the gradient of every site by log theta and beta, (n, 4 + p), not scaled."""
        check_theta(theta)
        gradients = np.zeros((self.n, N_THETA + self.p))
        self._sums(
            np.arange(self.n),
            theta,
            beta,
            free_nu=free_nu,
            derivatives=True,
            site_gradients=gradients,
        )
        return gradients

    @cached_property
    def distances(self) -> Floats:
        """Packed distances of every site's pairs, (n, m (m + 1) / 2).

        There are no rows if they would exceed `MAX_STORED_BYTES`.
        """
        m = self.neighbours.shape[1]
        packed = np.zeros(
            (self.n if 4 * self.n * m * (m + 1) <= MAX_STORED_BYTES else 0, m * (m + 1) // 2)
        )
        if len(packed):
            pack_distances(self.points, self.neighbours, packed)
        return packed

    @cached_property
    def distinct(self) -> tuple[Floats, Ints]:
        """Distinct distances (d,) of all pairs, and the place among them of each, as `distances`.

        There are none unless many pairs share each, as on a grid. Values of the Matern correlation
        of any smoothness are then computed once for all.
        """
        some_sites = self.distances[:: max(1, self.n // 1000)]
        for packed in (some_sites, self.distances):
            values, places = np.unique(packed, return_inverse=True)
            if packed.size <= SHARING * values.size:
                return np.empty(0), np.empty((0, 0), dtype=np.int64)
        return values, places.reshape(self.distances.shape)

    def _sums(
        self,
        sites: Ints,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool,
        derivatives: bool,
        site_gradients: Floats,
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        sums = (
            np.zeros(4),
            np.zeros(N_THETA),
            np.zeros((N_THETA, N_THETA)),
            np.zeros(self.p),
            np.zeros((self.p,) * 2),
        )
        parameters = (
            np.array(theta),
            np.asarray(beta, dtype=np.float64),
            matern_constants(theta.nu),
            free_nu,
            derivatives,
        )
        distances, places = self.distinct
        shared = np.empty((3, distances.size))
        theta_, _, constants, *_ = parameters
        correlate(distances, theta_, constants, free_nu, shared)
        data = (self.points, self.covariates, self.y, self.neighbours, self.distances)
        add_sites(*data, places, shared, sites, *parameters, *sums, site_gradients)
        return sums


@dataclass(frozen=True, eq=False)
class PartOfSites:
    """A subset of the sites, `places` (b,), as an estimate of all: sums are scaled by n / b."""

    all_sites: Sites
    places: Ints

    @property
    def n(self) -> int:
        """Number of all sites."""
        return self.all_sites.n

    @property
    def p(self) -> int:
        """Number of covariates."""
        return self.all_sites.p

    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of these sites, or of a batch `index` of them."""
        sites = self.places if index is None else self.places[index]
        return self.all_sites.terms(sites, theta, beta, free_nu=free_nu, derivatives=derivatives)

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Return the gradient of each of these sites, (b, 4 + p), not scaled."""
        return self.all_sites.site_gradients(theta, beta, free_nu=free_nu)[self.places]


def build_blocks(
    points: Floats, covariates: Floats, y: Floats, *, m: int, order: Order = "auto", seed: int = 0
) -> Blocks:
    """Put sites in order and find the m nearest earlier neighbours of each.

    Raises InputError if lengths differ, for fewer than 2 sites and for values that are not finite.
    """
    if not len(points) == len(covariates) == len(y) or len(y) < 2:
        raise InputError(
            f"{len(points)} points, {len(covariates)} rows of covariates, {len(y)} observations: "
            "the same number, at least 2, is expected."
        )
    if not (np.isfinite(covariates).all() and np.isfinite(y).all()):
        raise InputError("covariates or observations are not finite. Leave such rows out first.")
    points = np.ascontiguousarray(points, dtype=np.float64)
    places = site_order(points, order, seed=seed)
    sites = np.ascontiguousarray(points[places])
    rows = np.ascontiguousarray(covariates, dtype=np.float64)[places]
    return Blocks(
        sites, rows, np.asarray(y, dtype=np.float64)[places], earlier_neighbours(sites, m), places
    )


def matern_constants(nu: float) -> Floats:
    """Return the log of 2^(1 - nu) / Gamma(nu), and digamma(nu), for the compiled loops."""
    return np.array([(1.0 - nu) * np.log(2.0) - gammaln(nu), digamma(nu)], dtype=np.float64)


def check_theta(theta: Theta) -> None:
    """Raise InputError for invalid parameters of a covariance."""
    if not all(np.isfinite(value) and value > 0 for value in theta) or theta.nu > MOST_NU:
        values = ", ".join(
            f"{name} = {value:.3g}" for name, value in zip(PARAMETERS, theta, strict=True)
        )
        raise InputError(f"{values}. Accepted: numbers above 0, a smoothness to {MOST_NU:g}.")
