"""Standardise features and gaps.

Features are centred and scaled by the statistics of the source set or of the target's training set.
They may first be raised to a power, so that networks of one source can differ in their inputs. Gaps
are standardised by the mean and standard deviation of the source set, with which the source network
was trained, or by this scale mapped to the target's (`sources.recalibration`).

The scale of a feature is sqrt(sd^2 + (0.1 rms)^2), where rms is the root mean square of all
features' standard deviations. Without this floor, the tails of the descriptor's Gaussians, and
elements that one training row contains, would make new rows thousands of standard deviations long.
A feature that never varies in the set has the scale 1.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Statistics = Literal["source", "target"]
# Share of the root mean square standard deviation, added in quadrature to that of every feature.
FLOOR = 0.1
# Rows of a large set in float64 at a time.
ROWS_PER_CHUNK = 4096
# Standard deviation below which a feature is constant, relative to the largest of all features.
VARIES = 1e-6


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means and scales of features (p,) and of gaps (eV).

    Features x are first raised to a power: |x|^power sign(x).
    """

    x_mean: NDArray[np.float64]
    x_scale: NDArray[np.float64]
    y_mean_eV: float
    y_sd_eV: float
    power: float = 1.0

    def features(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return standardised features (n, p); raise InputError if their number differs."""
        if x.ndim != 2 or x.shape[1] != self.x_mean.shape[0]:
            raise InputError(
                f"features have shape {x.shape}, the model was fitted on {self.x_mean.shape[0]} "
                "features. Compute them with the descriptor stored in the model."
            )
        return (powered(x.astype(np.float64), self.power) - self.x_mean) / self.x_scale

    def gaps(self, y_eV: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the standardised gaps of gaps in eV."""
        return (np.asarray(y_eV, dtype=np.float64) - self.y_mean_eV) / self.y_sd_eV

    def gaps_eV(self, y: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the gaps in eV of standardised gaps."""
        return np.asarray(y, dtype=np.float64) * self.y_sd_eV + self.y_mean_eV

    def for_target(self, x: NDArray[np.floating], *, statistics: Statistics) -> Self:
        """Return the standardiser of a transfer to training features x (n, p)."""
        return self.with_features_of(x) if statistics == "target" else self

    def with_gaps_mapped(self, *, slope: float, intercept_eV: float) -> Self:
        """Return the standardiser with gaps g mapped to intercept + slope g.

        Raises InputError if the slope is not above 0.
        """
        if not slope > 0:
            raise InputError(
                f"gaps cannot be mapped with slope {slope}. Accepted: a slope above 0."
            )
        return replace(
            self, y_mean_eV=intercept_eV + slope * self.y_mean_eV, y_sd_eV=slope * self.y_sd_eV
        )

    def with_features_of(self, x: NDArray[np.floating]) -> Self:
        """Return the standardiser with the feature statistics of x (n, p)."""
        mean, scale = feature_statistics(powered(x, self.power))
        return replace(self, x_mean=mean, x_scale=scale)


def powered(x: NDArray[np.floating[Any]], power: float) -> NDArray[np.floating[Any]]:
    """Return |x|^power with the sign of x; raise InputError if the power is not positive."""
    if power == 1.0:
        return x
    if not 0 < power < np.inf:
        raise InputError(
            f"features cannot be raised to the power {power}. Accepted: a number above 0."
        )
    result: NDArray[np.floating[Any]] = np.copysign(np.abs(x) ** power, x)
    return result


def feature_statistics(x: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and scale (p,) of features (n, p); the scale of a constant feature is 1."""
    mean, sd = _mean_and_sd(x)
    floor = FLOOR * np.sqrt(np.mean(sd**2))
    return mean, np.where(_is_varying(sd), np.hypot(sd, floor), 1.0)


def varies(x: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which features (p,) of rows (n, p) vary by more than rounding."""
    return _is_varying(_mean_and_sd(x)[1])


def _is_varying(sd: NDArray[np.float64]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = sd > VARIES * sd.max(initial=0.0)
    return result


def _mean_and_sd(x: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numpy's mean and standard deviation (p,) of rows (n, p), in chunks for many rows.

    The results are bitwise equal, because numpy adds rows of several values one after the other.
    """
    n = x.shape[0]
    if n <= ROWS_PER_CHUNK or x.shape[1] < 2 or not x.flags.c_contiguous:
        wide = np.asarray(x, dtype=np.float64)
        return wide.mean(axis=0), wide.std(axis=0)
    total = np.zeros(x.shape[1])
    for start in range(0, n, ROWS_PER_CHUNK):
        total = _added(total, np.array(x[start : start + ROWS_PER_CHUNK], dtype=np.float64))
    mean = total / n
    squares = np.zeros(x.shape[1])
    for start in range(0, n, ROWS_PER_CHUNK):
        deviations = np.asarray(x[start : start + ROWS_PER_CHUNK], dtype=np.float64) - mean
        squares = _added(squares, np.multiply(deviations, deviations, out=deviations))
    return mean, np.sqrt(squares / n)


def _added(total: NDArray[np.float64], chunk: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the total plus the sum of the rows of a chunk, which is overwritten."""
    chunk[0] += total
    result: NDArray[np.float64] = np.add.reduce(chunk, axis=0)
    return result


def fit_standardiser(x: NDArray[np.floating], y_eV: NDArray[np.floating]) -> Standardiser:
    """Return the standardiser of a source set: features (n, p) and gaps (n,) in eV.

    Raises InputError if all gaps are equal.
    """
    gaps = np.asarray(y_eV, dtype=np.float64)
    if gaps.std() <= 0:
        raise InputError(
            f"all {gaps.size} gaps of the source set are {gaps[0]} eV. "
            "A source needs gaps that differ."
        )
    mean, scale = feature_statistics(x)
    return Standardiser(mean, scale, float(gaps.mean()), float(gaps.std()))
