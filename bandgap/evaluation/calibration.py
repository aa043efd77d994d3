"""Calibration of intervals: coverage against level, and PIT values.

Gneiting, Balabdaoui and Raftery (2007), J. R. Stat. Soc. B 69, 243-268.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr, ndtri

from bandgap.evaluation.metrics import miscalibration_area
from bandgap.foundation.errors import InputError
from bandgap.predictions.table import LEVELS

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoverageCurve:
    """Share of held-out gaps inside their interval, for the available levels among 0.01 to 0.99."""

    levels: Floats  # (99,)
    coverages: Floats  # (99,)
    n: int  # held-out structures

    @property
    def miscalibration_area(self) -> float:
        """Area between the curve and the diagonal, from 0 to 0.5."""
        return miscalibration_area(self.levels, self.coverages)

    def band(self, probability: float = 0.95) -> tuple[Floats, Floats]:
        """Return the range (99,), (99,) of the coverage of a calibrated model at each level.

        These are central binomial quantiles for `n` independent structures.
        """
        return chance_range(self.n, self.levels, probability=probability)


def coverage_curve(y: ArrayLike, quantiles: ArrayLike) -> CoverageCurve:
    """Return coverage against level of gaps `y` (n,) from stored quantiles (199, n) at
    `predictions.LEVELS`.

    Raises InputError on other shapes and on values that are not finite.
    """
    observed, stored = _with_quantiles(y, quantiles)
    below = stored[98::-1]  # pairs of quantiles around the median, from the narrowest to the widest
    above = stored[100:]
    inside = (observed >= below) & (observed <= above)
    return CoverageCurve(np.arange(1, 100) / 100.0, inside.mean(axis=1), observed.size)


def pit(y: ArrayLike, quantiles: ArrayLike) -> Floats:
    """Return the probability integral transform (n,) of `y` from stored quantiles (199, n).

    It is uniform for a calibrated model. Between quantiles the interpolation is linear in the
    normal score; a gap outside all quantiles gets 0.0025 or 0.9975.
    """
    observed, stored = _with_quantiles(y, quantiles)
    scores = ndtri(LEVELS)
    values = np.array(
        [
            np.interp(observed[j], stored[:, j], scores, -np.inf, np.inf)
            for j in range(observed.size)
        ]
    )
    return np.clip(ndtr(values), LEVELS[0] / 2.0, 1.0 - LEVELS[0] / 2.0)


def chance_range(n: int, shares: ArrayLike, *, probability: float = 0.95) -> tuple[Floats, Floats]:
    """Return the range (m,), (m,) of the observed share of `n` independent structures.

    These are central binomial quantiles for the true `shares` (m,) in (0, 1).
    """
    tail = (1.0 - probability) / 2.0
    true_shares = np.atleast_1d(np.asarray(shares, dtype=np.float64))
    return _binomial_quantile(tail, n, true_shares), _binomial_quantile(1.0 - tail, n, true_shares)


def _with_quantiles(y: ArrayLike, quantiles: ArrayLike) -> tuple[Floats, Floats]:
    observed = np.asarray(y, dtype=np.float64)
    stored = np.asarray(quantiles, dtype=np.float64)
    if observed.ndim != 1 or observed.size == 0 or stored.shape != (LEVELS.size, observed.size):
        raise InputError(
            f"y has shape {observed.shape}, quantiles {stored.shape}. Accepted: (n,), "
            f"({LEVELS.size}, n)."
        )
    if not (np.isfinite(observed).all() and np.isfinite(stored).all()):
        raise InputError(
            "y or quantiles contain values that are not finite. Leave out refused or unlabelled "
            "structures."
        )
    return observed, stored


def _binomial_quantile(probability: float, n: int, shares: Floats) -> Floats:
    """Return the smallest k / n with P(K <= k) >= probability, for K ~ Binomial(n, share), for
    every share.
    """
    k = np.arange(n + 1)
    cdf = bdtr(k[:, None].astype(np.float64), n, shares)
    result: Floats = np.argmax(cdf >= probability, axis=0) / n
    return result
