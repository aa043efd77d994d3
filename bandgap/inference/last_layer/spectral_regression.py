r"""A regression whose coefficients have one common prior variance: in closed form after one eigenvalue problem.

delta ~ N(0, s2 x M), M = C C' and C'G C = V diag(e) V', c = V'C'g. Given x, with Q(x) = Z'K^-1 Z - sum_j x c_j^2 / (1 +
x e_j), sigma^2 ~ InvGamma(a + n/2, b + Q/2) and delta = C V (x c / (1 + x e) + sqrt(s2 x / (1 + x e)) E), E ~ N(0, I).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.inference.last_layer.reduced_regression import ReducedRegression

_REACH, _POINTS = 20.0, 401  # of log x e_1 about 0 where penalties are looked for

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
        """Return log p(Z | x) for x (k,), with delta and sigma^2 integrated out, without its constant."""
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
        """Return x / (1 + x e), (k, p): the coefficients' variances in units of sigma^2 in the basis."""
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
    """Solve the eigenvalue problem for M = C C', `root` being C (p, p), or for M = I."""
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
    """A ridge penalty 1 / x, its effective number of parameters with the intercept, and its residual variance."""

    x: float
    degrees: float
    variance: float


def least_cross_validation(regression: SpectralRegression) -> Penalty:
    """Return the penalty of least generalised cross-validation (Golub, Heath and Wahba, 1979) among log-spaced ones.

    It is n |Z - H Z|^2 / (n - tr H)^2 with the map H from responses to fitted values, the intercept included, as in
    `linear_probe`; here from the reduced problem, whose cost does not depend on n. Without rows to spare the penalty is
    infinite (x = 0).
    """
    e, c = regression.eigenvalues, regression.coordinates
    largest = float(e.max(initial=0.0))
    if regression.n < 1 or largest <= 0:
        return Penalty(0.0, 1.0, regression.square / max(regression.n, 1))
    x = np.exp(np.linspace(-_REACH, _REACH, _POINTS)) / largest
    v = regression.shrunk(x)
    residual = np.maximum(regression.square - (v * (2.0 - v * e)) @ c**2, 0.0)
    left = regression.n - (v * e).sum(axis=1)
    usable = left > 0.5
    score = np.where(usable, residual / np.where(usable, left, 1.0) ** 2, np.inf)
    best = int(np.argmin(score))
    return Penalty(
        float(x[best]), float(regression.n + 1 - left[best]), float(residual[best] / left[best])
    )
