r"""Fit the scales of a source model to the training rows of a target before a transfer.

Gaps of another level of theory, or of crystals, differ from those of the source in offset and
slope. With f the gap of the source network in eV, the map g = intercept + slope f is fitted to the
training gaps by least squares, with the prior slope ~ N(1, 0.5^2). It changes the mean and the
standard deviation by which gaps are standardised:

    slope = (S_ff b + s^2 / 0.5^2) / (S_ff + s^2 / 0.5^2),   intercept = mean(y) - slope mean(f)

S_ff is the sum of squares of f about its mean, b the least-squares slope and s^2 its residual
variance. The unchanged source weights then predict recalibrated gaps, so that a prior or a start at
these weights is centred correctly. The slope is at least 0.25 sd(y) / sd(f), as for a correlation
of 0.25, because nothing can be learned on a scale of zero.

The statistics "auto" are the feature statistics of the target if the recalibrated source explains
the training gaps clearly better with them: by more than two standard errors of the mean difference
in squared residuals. Otherwise they are those of the source, with which its weights were trained.

A baseline g in eV of every structure, such as a tight-binding gap, explains a share of the gap:
y = a + b g + slope f, with b and slope ~ N(1/2, 0.5^2). The transfer then learns y - b g, which is
mapped as above.

Measured errors are in docs/explanation/which-source-and-method.md.
"""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.networks.perceptron import forward
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceModel

StatisticsChoice = Literal["auto", "source", "target"]
GapScale = Literal["calibrated", "source"]

# Prior standard deviation of the slope about 1.
SLOPE_SD = 0.5
MIN_CORRELATION = 0.25
# Relative rounding of the source network's single precision.
FLOAT32_ROUNDING = 1e-6
# Smallest noise of gaps about a baseline: labels have no more digits.
MIN_NOISE_EV = 1e-3
# Standard errors by which the feature statistics of the target must be better.
MIN_GAIN_IN_STANDARD_ERRORS = 2.0

Floats = NDArray[np.float64]


def standardiser_for(
    source: SourceModel,
    x: NDArray[np.floating[Any]],
    y_eV: NDArray[np.floating[Any]],
    *,
    statistics: StatisticsChoice = "auto",
    gap_scale: GapScale = "calibrated",
) -> Standardiser:
    """Return the standardiser of a transfer.

    Parameters
    ----------
    source
        The source model.
    x, y_eV
        Raw features (n, p) and gaps (n,) of the target's training rows.
    statistics
        Feature statistics of the source, of the target, or the better of both.
    gap_scale
        Whether gaps are recalibrated, or on the scale of the source.

    Raises
    ------
    InputError
        If the number of features is not that of the source.
    """
    of_source = source.standardiser
    if statistics == "auto":
        of_target = of_source.for_target(x, statistics="target")
        standardiser = _clearly_better(source, of_source, of_target, x, y_eV)
    else:
        standardiser = of_source.for_target(x, statistics=statistics)
    if gap_scale == "source":
        return standardiser
    slope, intercept = gap_map(
        source_gaps_eV(source, standardiser, x), np.asarray(y_eV, dtype=np.float64)
    )
    return standardiser.with_gaps_mapped(slope=slope, intercept_eV=intercept)


def gap_map(f_eV: Floats, y_eV: Floats) -> tuple[float, float]:
    """Return slope and intercept (eV) of y on f, both (n,) with n >= 3.

    The fit is least squares with the prior of the slope. If f varies only by rounding, as of a
    source that knows none of the elements, the slope is 1.
    """
    f = f_eV - f_eV.mean()
    y = y_eV - y_eV.mean()
    rounding = FLOAT32_ROUNDING * float(np.abs(f_eV).max(initial=1.0))
    s_ff = float(f @ f) if float(f.std()) > rounding else 0.0
    least_squares = float(f @ y) / s_ff if s_ff > 0 else 0.0
    weight = float(((y - least_squares * f) ** 2).sum()) / (y.size - 2) / SLOPE_SD**2
    slope = (s_ff * least_squares + weight) / (s_ff + weight)
    if s_ff > 0:
        slope = max(slope, MIN_CORRELATION * float(y.std() / f.std()))
    return slope, float(y_eV.mean() - slope * f_eV.mean())


def baseline_slope(
    y_eV: Floats, baseline_eV: Floats, f_eV: Floats | None = None
) -> tuple[float, float]:
    """Return mean and standard deviation of the slope b of gaps on a baseline.

    The fit is least squares with the noise of its residuals, and priors N(1/k, 0.5^2) of all k
    slopes.

    Parameters
    ----------
    y_eV, baseline_eV
        Gaps and baseline (n,).
    f_eV
        Gaps of the source (n,), whose slope is fitted as well; None for none.
    """
    columns = [baseline_eV] if f_eV is None else [baseline_eV, f_eV]
    z = np.column_stack(columns)
    z = z - z.mean(axis=0)
    y = y_eV - y_eV.mean()
    k = len(columns)
    residuals = y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
    noise = max(float(residuals @ residuals) / max(y.size - 1 - k, 1), MIN_NOISE_EV**2)
    precision = z.T @ z / noise + np.eye(k) / SLOPE_SD**2
    covariance = np.linalg.inv(precision)
    slopes = covariance @ (z.T @ y / noise + 1.0 / (k * SLOPE_SD**2))
    return float(slopes[0]), float(np.sqrt(covariance[0, 0]))


def source_gaps_eV(
    source: SourceModel, standardiser: Standardiser, x: NDArray[np.floating[Any]]
) -> Floats:
    """Return the gaps in eV (n,) of the source weights at raw features (n, p), on these scales."""
    params = {name: value.double() for name, value in source.params.items()}
    z = torch.from_numpy(standardiser.features(x))
    return standardiser.gaps_eV(forward(params, z).numpy())


def _clearly_better(
    source: SourceModel,
    first: Standardiser,
    second: Standardiser,
    x: NDArray[np.floating[Any]],
    y_eV: NDArray[np.floating[Any]],
) -> Standardiser:
    """Return `second` if its recalibrated source is clearly better on these rows, else `first`."""
    y = np.asarray(y_eV, dtype=np.float64)
    squared = []
    for standardiser in (first, second):
        f = source_gaps_eV(source, standardiser, x)
        slope, intercept = gap_map(f, y)
        squared.append((y - intercept - slope * f) ** 2)
    gain = squared[0] - squared[1]
    standard_error = gain.std(ddof=1) / np.sqrt(gain.size)
    return second if gain.mean() > MIN_GAIN_IN_STANDARD_ERRORS * standard_error else first
