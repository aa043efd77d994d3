r"""How a source model's scales are fitted to a target's training rows before a transfer: whose features, which gaps.

Gaps of another level of theory, or of crystals, differ from the source's in level and slope. With f the source
network's gap in eV, the map g = intercept + slope f is fitted to the training gaps by least squares, with slope ~
N(1, 0.5^2) as prior, and goes into the mean and the standard deviation by which gaps are standardised:

    slope = (S_ff b + s^2 / 0.5^2) / (S_ff + s^2 / 0.5^2),   intercept = mean(y) - slope mean(f)

S_ff is the sum of squares of f about its mean, b the least squares slope and s^2 its residual variance. So the
unchanged source weights predict recalibrated gaps, and a prior or a start at these weights lies where it should. The
slope is at least 0.25 sd(y) / sd(f), as of a correlation of 0.25: nothing can be learned on a scale of zero.

"auto" takes the target's feature statistics where the recalibrated source explains the training gaps better with them,
by more than two standard errors of the mean difference in squared residuals, else the source's, for which its weights
were trained.

A baseline g in eV that every structure has, such as a gap of tight binding, shares the gap with the source: y = a + b g
+ slope f, with b and slope ~ N(1/2, 0.5^2), and what is transferred is y - b g, which is mapped as above. There the
prior of the slope and its least value do not matter (organic crystals, n = 20 and 100: the same error without them).

Measured, root mean square error in eV, three splits each. Organic crystals (OMDB, 250 for training, source B3LYP),
fine-tuning: source statistics 0.66, recalibrated 0.56; target statistics 1.01, recalibrated 0.58. Crystals of the demo
(200 for training, target statistics): 0.39, recalibrated 0.38.
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

SLOPE_SD = 0.5  # prior standard deviation of the slope about 1
LEAST_CORRELATION = 0.25
FLOAT32_DIGITS = 1e-6  # relative: what the source network's single precision tells apart
LEAST_NOISE_EV = 1e-3  # of gaps about a baseline: labels have no more digits
CLEARLY = (
    2.0  # standard errors by which the target's feature statistics must be better to be chosen
)

Floats = NDArray[np.float64]


def standardiser_for(
    source: SourceModel,
    x: NDArray[np.floating[Any]],
    y_eV: NDArray[np.floating[Any]],
    *,
    statistics: StatisticsChoice = "auto",
    gap_scale: GapScale = "calibrated",
) -> Standardiser:
    """Return the standardiser of a transfer of `source` to raw features (n, p) and gaps (n,) in eV.

    Raises InputError when the number of features is not the source's.
    """
    own = source.standardiser
    if statistics == "auto":
        chosen = _clearly_better(source, own, own.for_target(x, statistics="target"), x, y_eV)
    else:
        chosen = own.for_target(x, statistics=statistics)
    if gap_scale == "source":
        return chosen
    slope, intercept = gap_map(
        source_gaps_eV(source, chosen, x), np.asarray(y_eV, dtype=np.float64)
    )
    return chosen.with_gaps_mapped(slope=slope, intercept_eV=intercept)


def gap_map(f_eV: Floats, y_eV: Floats) -> tuple[float, float]:
    """Return slope and intercept (eV) of y on f, both (n,), n >= 3: least squares with the prior of the slope.

    Where f differs by no more than its rounding, as of a source that knows none of the elements, the slope is 1.
    """
    f, y = f_eV - f_eV.mean(), y_eV - y_eV.mean()
    rounding = FLOAT32_DIGITS * float(np.abs(f_eV).max(initial=1.0))
    s_ff = float(f @ f) if float(f.std()) > rounding else 0.0
    least_squares = float(f @ y) / s_ff if s_ff > 0 else 0.0
    weight = float(((y - least_squares * f) ** 2).sum()) / (y.size - 2) / SLOPE_SD**2
    slope = (s_ff * least_squares + weight) / (s_ff + weight)
    if s_ff > 0:
        slope = max(slope, LEAST_CORRELATION * float(y.std() / f.std()))
    return slope, float(y_eV.mean() - slope * f_eV.mean())


def baseline_slope(
    y_eV: Floats, baseline_eV: Floats, f_eV: Floats | None = None
) -> tuple[float, float]:
    """Return mean and sd of the slope b of gaps (n,) on a baseline (n,), beside source gaps (n,) where they are given.

    Least squares with the noise of its residuals, and priors N(1/k, 0.5^2) of all k slopes.
    """
    columns = [baseline_eV] if f_eV is None else [baseline_eV, f_eV]
    z = np.column_stack(columns)
    z, y, k = z - z.mean(axis=0), y_eV - y_eV.mean(), len(columns)
    left = y - z @ np.linalg.lstsq(z, y, rcond=None)[0]
    noise = max(float(left @ left) / max(y.size - 1 - k, 1), LEAST_NOISE_EV**2)
    precision = z.T @ z / noise + np.eye(k) / SLOPE_SD**2
    covariance = np.linalg.inv(precision)
    slopes = covariance @ (z.T @ y / noise + 1.0 / (k * SLOPE_SD**2))
    return float(slopes[0]), float(np.sqrt(covariance[0, 0]))


def source_gaps_eV(
    source: SourceModel, standardiser: Standardiser, x: NDArray[np.floating[Any]]
) -> Floats:
    """Return the gaps in eV (n,) of the unchanged source weights at raw features (n, p), on these scales."""
    wide = {name: value.double() for name, value in source.params.items()}
    return standardiser.gaps_eV(forward(wide, torch.from_numpy(standardiser.features(x))).numpy())


def _clearly_better(
    source: SourceModel,
    first: Standardiser,
    second: Standardiser,
    x: NDArray[np.floating[Any]],
    y_eV: NDArray[np.floating[Any]],
) -> Standardiser:
    """Return `second` where its recalibrated source is clearly better on the training rows, else `first`."""
    y = np.asarray(y_eV, dtype=np.float64)
    squared = []
    for standardiser in (first, second):
        f = source_gaps_eV(source, standardiser, x)
        slope, intercept = gap_map(f, y)
        squared.append((y - intercept - slope * f) ** 2)
    gain = squared[0] - squared[1]
    return second if gain.mean() > CLEARLY * gain.std(ddof=1) / np.sqrt(gain.size) else first
