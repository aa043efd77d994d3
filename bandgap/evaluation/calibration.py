"""Calibration of intervals: coverage against level, and PIT values.

Gneiting, Balabdaoui and Raftery (2007), J. R. Stat. Soc. B 69, 243-268.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, ndtr, ndtri

from bandgap.evaluation.metrics import miscalibration_area
from bandgap.foundation.errors import InputError
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.table import LEVELS

Floats = NDArray[np.float64]

_PIT_SEED = 0


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


def coverage_curve(
    y: ArrayLike, quantiles: ArrayLike, *, p_metal: Floats | None = None
) -> CoverageCurve:
    """Return coverage against level of gaps `y` (n,) from stored quantiles (199, n) at
    `predictions.LEVELS`.

    With probabilities `p_metal` (n,) of a gap of zero, the coverage is that of central intervals of
    the PIT. Intervals of the gap that begin at zero can contain more than their level.

    Raises InputError on other shapes and on values that are not finite.
    """
    observed, stored = _with_quantiles(y, quantiles)
    levels = np.arange(1, 100) / 100.0
    if p_metal is not None:
        distances = 2.0 * np.abs(pit(observed, stored, p_metal=p_metal) - 0.5)
        shares = (distances <= levels[:, None]).mean(axis=1)
        return CoverageCurve(levels, shares, observed.size)
    below = stored[98::-1]  # pairs of quantiles around the median, from the narrowest to the widest
    above = stored[100:]
    inside = (observed >= below) & (observed <= above)
    return CoverageCurve(levels, inside.mean(axis=1), observed.size)


def pit(y: ArrayLike, quantiles: ArrayLike, *, p_metal: Floats | None = None) -> Floats:
    """Return the probability integral transform (n,) of `y` from stored quantiles (199, n).

    It is uniform for a calibrated model. Between quantiles the interpolation is linear in the
    normal score; a gap outside all quantiles gets 0.0025 or 0.9975. With probabilities `p_metal`
    (n,) of a gap of zero, the value of such a gap is a random number from 0 to its `p_metal`
    (Czado, Gneiting and Held, 2009, Biometrics 65, 1254-1261). The numbers are always the same.
    """
    observed, stored = _with_quantiles(y, quantiles)
    scores = ndtri(LEVELS)
    if p_metal is not None:
        return _pit_with_metals(observed, stored, np.asarray(p_metal, dtype=np.float64))
    values = np.array(
        [
            np.interp(observed[j], stored[:, j], scores, -np.inf, np.inf)
            for j in range(observed.size)
        ]
    )
    return np.clip(ndtr(values), LEVELS[0] / 2.0, 1.0 - LEVELS[0] / 2.0)


def _pit_with_metals(y: Floats, stored: Floats, p_metal: Floats) -> Floats:
    uniform = np.random.default_rng(_PIT_SEED).uniform(size=y.size)
    values = np.empty(y.size)
    for j in range(y.size):
        is_above = (p_metal[j] < LEVELS) & (stored[:, j] > 0.0)
        gaps = np.concatenate([[0.0], stored[is_above, j]])
        scores = ndtri(np.concatenate([[p_metal[j]], LEVELS[is_above]]))
        values[j] = ndtr(np.interp(y[j], gaps, scores, right=np.inf))
    is_zero = y <= ZERO_EV
    values[is_zero] = (p_metal * uniform)[is_zero]
    return np.where(values > LEVELS[-1], 1.0 - LEVELS[0] / 2.0, values)


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
