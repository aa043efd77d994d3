"""Penalized-complexity prior of a regression's distance from its source, for changes of any shape.

Base model: the source, beta ~ N(b, s2 S1). Flexible model: beta ~ N(b, s2 (S1 + x M)). With s_j the
eigenvalues of S1^-1 M, the squared distance is 2 / p times the Kullback-Leibler divergence:

    d(x)^2 = 1/p sum_j [x s_j - log(1 + x s_j)],   g(x) = lam exp(-lam d(x)) d'(x)

(Abba 2023, eqs. 3.11 and 3.12, which are the case M = S1). With M = I the s_j are the precisions of
the source's weights, tens of thousands: eq. 3.11 applied to x itself would be another prior. The
thesis gives no rate lam. The rate log 2 / d(x_U) puts the prior median of x at x_U, where the
changes move a prediction by one noise variance.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.priors.penalized_complexity import (
    DistanceTerms,
    distance,
    inverse_distance,
    log_density,
)

Structure = Literal["isotropic", "source"]
LEAST = 1e-14  # share of the largest variance of the source's weights below which is rounding

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SourceDistance:
    """Prior of x: the terms of d(x), with the rates s_j, and the rate lam."""

    terms: DistanceTerms
    lam: float

    def log_density(self, log_x: Floats) -> Floats:
        """Return the log density of log x: log g(x) + log x, of the shape of `log_x`."""
        value = log_density(torch.from_numpy(np.asarray(np.exp(log_x))), self.terms, lam=self.lam)
        result: Floats = value.numpy() + log_x
        return result

    def draw(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw x (n,) by inversion: d(x) = E / lam with E ~ Exp(1)."""
        distances = torch.from_numpy(rng.standard_exponential(n) / self.lam)
        result: Floats = inverse_distance(distances, self.terms).numpy()
        return result

    @property
    def typical(self) -> float:
        """Log of the x at which the median s_j x is 1."""
        return -math.log(float(self.terms.rates.median()))


def source_distance(rates: Floats, *, lam: float | None, median_x: float) -> SourceDistance:
    """Return the prior for rates s_j (p,).

    Its rate is `lam`, or for None the one for which x has the median `median_x`. Raises ConfigError
    if lam or the median is not above 0.
    """
    values, counts = np.unique(rates, return_counts=True)
    terms = DistanceTerms(torch.from_numpy(counts / rates.size), torch.from_numpy(values))
    if lam is None:
        if not (math.isfinite(median_x) and median_x > 0):
            raise ConfigError(
                f"distance from the source: prior median {median_x}. Accepted: a number above 0."
            )
        lam = math.log(2.0) / float(distance(torch.tensor(median_x, dtype=torch.float64), terms))
    if not (math.isfinite(lam) and lam > 0):
        raise ConfigError(f"distance from the source: lam = {lam}. Accepted: a number above 0.")
    return SourceDistance(terms, lam)


def isotropic_rates(source_covariance: Floats) -> Floats:
    """Return the eigenvalues (p,) of S1^-1; those of a singular S1 are bounded."""
    variances = np.linalg.eigvalsh(source_covariance)
    result: Floats = 1.0 / np.maximum(variances, LEAST * variances[-1])
    return result
