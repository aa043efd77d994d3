"""The one rule for standardising features and gaps.

Features are centred and scaled by the statistics of the source set or of the target's training set, by a named setting;
a network may see another power of them, so that networks of one source can differ in what they are given.
Gaps are standardised by the source set's mean and standard deviation, the scale that the source network's weights were
trained on, or by that scale mapped to the target's (`recalibration.py`).

The scale of a feature is sqrt(sd^2 + (0.1 rms)^2), rms being the root mean square of all features' standard deviations:
without the floor the far tails of the descriptor's Gaussians and elements that one training row contains make new rows
thousands of standard deviations long (measured on organic crystals, n = 250: longest new row 6,700 times the typical
one, 3.9 with the floor, and the error of kernel ridge falls from 0.594 to 0.586 eV). A feature that never varies in
the set gets unit scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.errors import InputError

Statistics = Literal["source", "target"]
FLOOR = 0.1  # of the root mean square standard deviation, added in quadrature to every feature's
ROWS_PER_BLOCK = 4096  # rows of a large set that exist in float64 at once
VARIES = 1e-6  # standard deviation, relative to the largest of all features, below which a feature is called constant


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means and scales of features (p,) and of gaps (eV); features x are first raised to a power, |x|^power sign(x)."""

    x_mean: NDArray[np.float64]
    x_scale: NDArray[np.float64]
    y_mean_eV: float
    y_sd_eV: float
    power: float = 1.0

    def features(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return standardised features (n, p); raises InputError when the number of features differs."""
        if x.ndim != 2 or x.shape[1] != self.x_mean.shape[0]:
            raise InputError(
                f"features have shape {x.shape}, the model was fitted on {self.x_mean.shape[0]} features. "
                "Compute them with the descriptor stored in the model."
            )
        return (powered(x.astype(np.float64), self.power) - self.x_mean) / self.x_scale

    def gaps(self, y_eV: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return standardised gaps of gaps in eV."""
        return (np.asarray(y_eV, dtype=np.float64) - self.y_mean_eV) / self.y_sd_eV

    def gaps_eV(self, y: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return gaps in eV of standardised gaps."""
        return np.asarray(y, dtype=np.float64) * self.y_sd_eV + self.y_mean_eV

    def for_target(self, x: NDArray[np.floating], *, statistics: Statistics) -> Self:
        """Return the standardiser of a transfer to training features `x` (n, p): the named setting's one rule."""
        return self.with_features_of(x) if statistics == "target" else self

    def with_gaps_mapped(self, *, slope: float, intercept_eV: float) -> Self:
        """Return the same features with gaps g in eV mapped to intercept + slope g; raises InputError at slope <= 0."""
        if not slope > 0:
            raise InputError(
                f"gaps cannot be mapped with slope {slope}. Accepted: a slope above 0."
            )
        return replace(
            self, y_mean_eV=intercept_eV + slope * self.y_mean_eV, y_sd_eV=slope * self.y_sd_eV
        )

    def with_features_of(self, x: NDArray[np.floating]) -> Self:
        """Return the same gap scale with the feature statistics of `x` (n, p)."""
        mean, scale = feature_statistics(powered(x, self.power))
        return replace(self, x_mean=mean, x_scale=scale)

    def to_arrays(self) -> dict[str, Tensor]:
        """Return means and scales of the features as named tensors."""
        return {"x_mean": torch.from_numpy(self.x_mean), "x_scale": torch.from_numpy(self.x_scale)}

    def scalars(self) -> dict[str, float]:
        """Return the power of the features, and mean and standard deviation of the gaps."""
        return {"y_mean_eV": self.y_mean_eV, "y_sd_eV": self.y_sd_eV, "x_power": self.power}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any]) -> Self:
        """Build a standardiser from `to_arrays` and `scalars`."""
        x_mean, x_scale = arrays["x_mean"].numpy(), arrays["x_scale"].numpy()
        return cls(
            x_mean,
            x_scale,
            scalars["y_mean_eV"],
            scalars["y_sd_eV"],
            float(scalars.get("x_power", 1.0)),
        )


def powered(x: NDArray[np.floating[Any]], power: float) -> NDArray[np.floating[Any]]:
    """Return |x|^power with the sign of x, element by element; raises InputError for a power that is not positive."""
    if power == 1.0:
        return x
    if not 0 < power < np.inf:
        raise InputError(
            f"features cannot be raised to the power {power}. Accepted: a number above 0."
        )
    result: NDArray[np.floating[Any]] = np.copysign(np.abs(x) ** power, x)
    return result


def feature_statistics(x: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and scale (p,) of features (n, p); the scale of a feature that never varies is 1."""
    mean, sd = _mean_and_sd(x)
    floor = FLOOR * np.sqrt(np.mean(sd**2))
    return mean, np.where(_moves(sd), np.hypot(sd, floor), 1.0)


def varies(x: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which features (p,) of rows (n, p) vary by more than rounding."""
    return _moves(_mean_and_sd(x)[1])


def _moves(sd: NDArray[np.float64]) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = sd > VARIES * sd.max(initial=0.0)
    return result


def _mean_and_sd(x: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numpy's mean and standard deviation (p,) of rows (n, p); of many rows in blocks, to the same bytes.

    numpy adds rows of several numbers one after the other, as the blocks do.
    """
    n = x.shape[0]
    if n <= ROWS_PER_BLOCK or x.shape[1] < 2 or not x.flags.c_contiguous:
        wide = np.asarray(x, dtype=np.float64)
        return wide.mean(axis=0), wide.std(axis=0)
    total, square = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for start in range(0, n, ROWS_PER_BLOCK):
        total = _added(total, np.array(x[start : start + ROWS_PER_BLOCK], dtype=np.float64))
    mean = total / n
    for start in range(0, n, ROWS_PER_BLOCK):
        away = np.asarray(x[start : start + ROWS_PER_BLOCK], dtype=np.float64) - mean
        square = _added(square, np.multiply(away, away, out=away))
    return mean, np.sqrt(square / n)


def _added(total: NDArray[np.float64], block: NDArray[np.float64]) -> NDArray[np.float64]:
    block[0] += total
    result: NDArray[np.float64] = np.add.reduce(block, axis=0)
    return result


def fit_standardiser(x: NDArray[np.floating], y_eV: NDArray[np.floating]) -> Standardiser:
    """Fit means and scales on a source set: features (n, p) and gaps (n,) in eV; raises InputError on constant gaps."""
    gaps = np.asarray(y_eV, dtype=np.float64)
    if gaps.std() <= 0:
        raise InputError(
            f"all {gaps.size} gaps of the source set are {gaps[0]} eV. A source needs gaps that differ."
        )
    mean, scale = feature_statistics(x)
    return Standardiser(mean, scale, float(gaps.mean()), float(gaps.std()))
