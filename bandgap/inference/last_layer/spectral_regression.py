"""A regression whose coefficients share one prior variance: closed forms after one eigenproblem.

delta ~ N(0, s2 x M), M = C C' and C'G C = V diag(e) V', c = V'C'g. Given x, with

    Q(x) = Z'K^-1 Z - sum_j x c_j^2 / (1 + x e_j),

sigma^2 ~ InvGamma(a + n/2, b + Q/2) and delta = C V (x c / (1 + x e) + sqrt(s2 x / (1 + x e)) E), E
~ N(0, I).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.inference.last_layer.reduced_regression import ReducedRegression

# Grid of penalties: log x e_1 from -_REACH to _REACH.
_REACH = 20.0
_POINTS = 401
# Largest prior variance of the responses by the coefficients, in units of their observed variance.
LARGEST_PRIOR_VARIANCE = 10.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectralRegression:
    """The regression in the basis in which its coefficients are independent given x."""

    eigenvalues: Floats  # e (p,)
    coordinates: Floats  # c (p,)
    vectors: Floats  # C V (p, p)
    square: float
    n: int
    prior: NoisePrior

    def misfit(self, x: Floats) -> Floats:
        """Return Q(x) for x (k,)."""
        explained = (x[:, None] / (1.0 + np.outer(x, self.eigenvalues))) @ self.coordinates**2
        return np.maximum(self.square - explained, 0.0)

    def log_likelihood(self, x: Floats) -> Floats:
        """Return log p(Z | x) for x (k,), up to a constant.

        delta and sigma^2 are integrated out.
        """
        log_determinant = np.log1p(np.outer(x, self.eigenvalues)).sum(axis=1)
        result: Floats = -0.5 * log_determinant - self.shape * np.log(self.rates(x))
        return result

    @property
    def shape(self) -> float:
        """Shape a + n / 2 of sigma^2 given x."""
        return self.prior.shape + 0.5 * self.n

    def rates(self, x: Floats) -> Floats:
        """Return the scale b + Q(x) / 2 of sigma^2 given x (k,)."""
        return self.prior.scale + 0.5 * self.misfit(x)

    def shrunk(self, x: Floats) -> Floats:
        """Return x / (1 + x e), (k, p): variances in the basis in units of sigma^2."""
        return x[:, None] / (1.0 + np.outer(x, self.eigenvalues))

    def draw(self, x: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw delta (k, p) and sigma^2 (k,) given x (k,)."""
        sigma2 = self.rates(x) / rng.standard_gamma(self.shape, size=x.size)
        variances = self.shrunk(x)
        noise = np.sqrt(sigma2[:, None] * variances) * rng.standard_normal(variances.shape)
        return (variances * self.coordinates + noise) @ self.vectors.T, sigma2


def spectral_regression(
    problem: ReducedRegression, *, root: Floats | None = None, prior: NoisePrior = NoisePrior()
) -> SpectralRegression:
    """Return the regression for M = C C', `root` being C (p, p), or for M = I."""
    gram = problem.gram if root is None else root.T @ problem.gram @ root
    moment = problem.moment if root is None else root.T @ problem.moment
    values, vectors = eigh(gram, overwrite_a=root is not None, check_finite=False)
    return SpectralRegression(
        np.clip(values, 0.0, None),
        vectors.T @ moment,
        vectors if root is None else root @ vectors,
        problem.square,
        problem.n,
        prior,
    )


@dataclass(frozen=True)
class Penalty:
    """A ridge penalty 1 / x and its residual variance.

    `degrees` is the effective number of parameters with the intercept.
    """

    x: float
    degrees: float
    variance: float


def least_cross_validation(regression: SpectralRegression) -> Penalty:
    """Return the penalty with the least generalised cross-validation score on a grid of log x.

    The score (Golub, Heath and Wahba, 1979) is n |Z - H Z|^2 / (n - tr H)^2 with the map H from
    responses to fitted values, the intercept included. It is computed from the reduced problem, at
    a cost that does not depend on n. Without degrees of freedom for the noise the penalty is
    infinite (x = 0).

    The score counts copies of a row as new rows. Where the data contain each crystal twice, it
    takes an interpolation for a fit without noise, and is least without any penalty. The penalty
    therefore has a floor: the variance s2 x tr(G) / n that the prior gives the responses is at most
    `LARGEST_PRIOR_VARIANCE` times the observed one, s2 being b + Q/2 over a + n/2.
    """
    e = regression.eigenvalues
    c = regression.coordinates
    largest = float(e.max(initial=0.0))
    if regression.n < 1 or largest <= 0:
        return Penalty(0.0, 1.0, regression.square / max(regression.n, 1))
    x = np.exp(np.linspace(-_REACH, _REACH, _POINTS)) / largest
    v = regression.shrunk(x)
    residual = np.maximum(regression.square - (v * (2.0 - v * e)) @ c**2, 0.0)
    freedom = regression.n - (v * e).sum(axis=1)
    prior_square = x * regression.rates(x) / regression.shape * e.sum()
    is_plausible = prior_square <= LARGEST_PRIOR_VARIANCE * regression.square
    usable = (freedom > 0.5) & is_plausible
    score = np.where(usable, residual / np.where(usable, freedom, 1.0) ** 2, np.inf)
    best = int(np.argmin(score))
    return Penalty(
        float(x[best]),
        float(regression.n + 1 - freedom[best]),
        float(residual[best] / freedom[best]),
    )
