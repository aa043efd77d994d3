"""The posterior density of the logarithms eta of the free parameters, given sites and priors.

log p(eta) = log p(theta) + sum eta: priors are stated for theta and contain the Jacobian. beta has
a flat prior.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia.likelihood import N_THETA, Sites, Terms, Theta
from bandgap.research.vecchia.ordering import Floats, Ints


class Prior(Protocol):
    """A density of eta = log theta_j, including the Jacobian."""

    def value(self, eta: float) -> float:
        """Return the log density."""
        ...

    def gradient(self, eta: float) -> float:
        """Return the derivative of the log density."""
        ...

    def curvature(self, eta: float) -> float:
        """Return minus the second derivative of the log density."""
        ...


@dataclass(frozen=True)
class Flat:
    """The improper density 1 / theta_j: flat in eta."""

    def value(self, eta: float) -> float:
        """Return 0."""
        del eta
        return 0.0

    def gradient(self, eta: float) -> float:
        """Return 0."""
        del eta
        return 0.0

    def curvature(self, eta: float) -> float:
        """Return 0."""
        del eta
        return 0.0


@dataclass(frozen=True)
class Gamma:
    """theta_j ~ Gamma(shape, rate), with mean shape / rate."""

    shape: float
    rate: float

    def value(self, eta: float) -> float:
        """Return the log density."""
        normal = self.shape * np.log(self.rate) - float(gammaln(self.shape))
        return float(normal + self.shape * eta - self.rate * np.exp(eta))

    def gradient(self, eta: float) -> float:
        """Return the derivative of the log density."""
        return float(self.shape - self.rate * np.exp(eta))

    def curvature(self, eta: float) -> float:
        """Return minus the second derivative of the log density."""
        return float(self.rate * np.exp(eta))


@dataclass(frozen=True)
class LogNormal:
    """eta ~ N(mean, variance)."""

    mean: float
    variance: float

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Return draws of the parameter exp(eta), (n,)."""
        result: Floats = np.exp(self.mean + np.sqrt(self.variance) * rng.standard_normal(n))
        return result

    def value(self, eta: float) -> float:
        """Return the log density."""
        return float(
            -0.5 * (np.log(2 * np.pi * self.variance) + (eta - self.mean) ** 2 / self.variance)
        )

    def gradient(self, eta: float) -> float:
        """Return the derivative of the log density."""
        return -(eta - self.mean) / self.variance

    def curvature(self, eta: float) -> float:
        """Return minus the second derivative of the log density."""
        del eta
        return 1.0 / self.variance


class Priors(NamedTuple):
    """Priors of the four parameters.

    The defaults are for a grid with spacing one (section 4.4.2 of the source).
    """

    sigma2: Prior = Gamma(0.1, 0.1)
    rho: Prior = Gamma(9.0, 2.0)
    nu: Prior = LogNormal(1.0, 1.0)
    tau2: Prior = Gamma(0.1, 0.1)


FLAT = Priors(Flat(), Flat(), Flat(), Flat())


class Pull(NamedTuple):
    """Log density at (eta, beta), its gradients (k,) and (p,), and the precision (k, k) of eta.

    The precision is the Fisher information plus the curvature of the prior.
    """

    value: float
    grad_eta: Floats
    grad_beta: Floats
    precision: Floats
    terms: Terms


@dataclass(frozen=True, eq=False)
class Target:
    """Sites and priors; `nu` is the fixed smoothness, None if it is free.

    eta are the logarithms of the free parameters, in the order of `Theta`.
    """

    sites: Sites
    priors: Priors = Priors()
    nu: float | None = 0.5

    @property
    def free(self) -> list[int]:
        """Places of the free parameters in Theta."""
        return [0, 1, 2, 3] if self.nu is None else [0, 1, 3]

    @property
    def names(self) -> list[str]:
        """Names of the free parameters."""
        return [Theta._fields[j] for j in self.free]

    def theta(self, eta: Floats) -> Theta:
        """Return the parameters at eta (k,)."""
        values = np.empty(4)
        values[2] = self.nu or 0.0
        with np.errstate(over="ignore"):  # refused later
            values[self.free] = np.exp(eta)
        return Theta(*map(float, values))

    def eta(self, theta: Theta) -> Floats:
        """Return the free logarithms (k,) of parameters."""
        return np.asarray(np.log(np.array(theta)[self.free]), dtype=np.float64)

    def log_prior(self, eta: Floats) -> float:
        """Return the log density of the prior at eta."""
        return sum(self.priors[j].value(float(e)) for j, e in zip(self.free, eta, strict=True))

    def prior_gradient(self, eta: Floats) -> Floats:
        """Return the derivative (k,) of the log prior."""
        return np.array(
            [self.priors[j].gradient(float(e)) for j, e in zip(self.free, eta, strict=True)]
        )

    def prior_curvature(self, eta: Floats) -> Floats:
        """Return minus the second derivatives (k,) of the log prior."""
        return np.array(
            [self.priors[j].curvature(float(e)) for j, e in zip(self.free, eta, strict=True)]
        )

    def terms(
        self, eta: Floats, beta: Floats, index: Ints | None = None, *, derivatives: bool = True
    ) -> Terms:
        """Return the terms of the likelihood for a batch, None for all sites."""
        return self.sites.terms(
            index,
            self.theta(eta),
            beta,
            free_nu=derivatives and self.nu is None,
            derivatives=derivatives,
        )

    def terms_if_any(self, eta: Floats) -> Terms | None:
        """Return the terms at beta = 0 without derivatives, None if there is no density.

        There is none if a parameter is 0 or infinite to rounding, the smoothness is too large, or
        the covariance has no Cholesky factor.
        """
        try:
            return self.terms(eta, np.zeros(self.sites.p), derivatives=False)
        except InputError:
            return None

    def site_gradients(self, eta: Floats, beta: Floats) -> Floats:
        """Return the gradient of every site's log likelihood by (eta, beta), (n, k + p)."""
        gradients = self.sites.site_gradients(self.theta(eta), beta, free_nu=self.nu is None)
        return gradients[:, [*self.free, *range(N_THETA, gradients.shape[1])]]

    def pull(self, eta: Floats, beta: Floats, index: Ints | None = None) -> Pull:
        """Return log density, gradients and precision, unbiased if `index` is a batch."""
        terms = self.terms(eta, beta, index)
        fisher = terms.fisher_log_theta[np.ix_(self.free, self.free)]
        return Pull(
            terms.loglik + self.log_prior(eta),
            terms.grad_log_theta[self.free] + self.prior_gradient(eta),
            terms.grad_beta,
            fisher + np.diag(self.prior_curvature(eta)),
            terms,
        )


def log_likelihood(terms: Terms, beta: Floats, *, n: int) -> float:
    """Return the log likelihood at another beta from the terms of all n sites at the same theta."""
    exponent = terms.p1 + terms.p2 - 2 * beta @ terms.p3 + beta @ terms.p4 @ beta
    return float(-0.5 * (n * np.log(2 * np.pi) + exponent))
