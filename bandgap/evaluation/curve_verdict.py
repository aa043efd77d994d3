"""Whether a whole coverage curve differs from that of a calibrated model by more than chance.

Curves of a calibrated model are simulated with a fixed seed. Two statistics are compared with
theirs: the miscalibration area, and the smallest pointwise binomial tail probability over all
levels, which defines a simultaneous band (Säilynoja, Bürkner and Vehtari 2022, Stat. Comput. 32,
32, section 2.3). Each is tested at half of the false-alarm rate, so that together they call at most
`FALSE_ALARM` of the calibrated runs miscalibrated.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from bandgap.evaluation.calibration import CoverageCurve
from bandgap.evaluation.metrics import miscalibration_area

Floats = NDArray[np.float64]
Side = Literal["too narrow", "too wide"]

FALSE_ALARM = 0.05  # share of calibrated runs whose curve is called miscalibrated
SIMULATED_CURVES = 2_000
SEED = 20_221

_POINTWISE_TAIL = 0.025


@dataclass(frozen=True)
class LevelRange:
    """Span of the levels at which the coverage is outside its 95 % range of chance, to one side."""

    side: Side
    lowest: float
    highest: float


@dataclass(frozen=True)
class CurveVerdict:
    """The verdict on a coverage curve.

    Attributes
    ----------
    deviates
        Whether chance does not explain the curve.
    area
        Miscalibration area of the curve.
    chance_area
        Area below which 97.5 % of the curves of a calibrated model lie.
    ranges
        Where the curve leaves the 95 % range of chance: at most one span for each side.
    """

    deviates: bool
    area: float
    chance_area: float
    ranges: tuple[LevelRange, ...]


def curve_verdict(curve: CoverageCurve) -> CurveVerdict:
    """Return whether chance explains a coverage curve, at a false-alarm rate of `FALSE_ALARM`."""
    columns = np.round(100 * curve.levels).astype(np.int64) - 1
    chance_area, chance_tail = _chance_limits(curve.n, tuple(columns.tolist()))
    area = curve.miscalibration_area
    lower, upper = _tails(np.round(curve.coverages * curve.n), curve.n, curve.levels)
    tail = float(np.minimum(lower, upper).min())
    return CurveVerdict(
        deviates=bool(area > chance_area or tail < chance_tail),
        area=area,
        chance_area=chance_area,
        ranges=_ranges(curve.levels, lower, upper),
    )


@lru_cache(maxsize=64)
def _chance_limits(n: int, columns: tuple[int, ...]) -> tuple[float, float]:
    """Return the largest usual area and the smallest usual tail probability.

    They are of simulated curves of `n` independent structures at the levels (columns + 1) / 100.
    """
    generator = np.random.default_rng(SEED)
    bins = generator.multinomial(n, np.full(100, 0.01), size=SIMULATED_CURVES)
    counts = bins.cumsum(axis=1)[:, list(columns)]
    levels = (np.array(columns) + 1) / 100
    areas = [miscalibration_area(levels, shares) for shares in counts / n]
    tails = np.minimum(*_tails(counts, n, levels)).min(axis=1)
    half = FALSE_ALARM / 2
    return float(np.quantile(areas, 1 - half)), float(np.quantile(tails, half))


def _tails(counts: NDArray[np.number], n: int, levels: Floats) -> tuple[Floats, Floats]:
    """Return P(K <= count) and P(K >= count) for K ~ Binomial(n, level)."""
    k = np.asarray(counts, dtype=np.float64)
    at_most = np.asarray(bdtr(k, n, levels), dtype=np.float64)
    below = np.asarray(bdtr(np.maximum(k - 1.0, 0.0), n, levels), dtype=np.float64)
    at_least: Floats = np.where(k > 0, 1.0 - below, 1.0)
    return at_most, at_least


def _ranges(levels: Floats, at_most: Floats, at_least: Floats) -> tuple[LevelRange, ...]:
    """Return for each side the span of the levels with a tail probability below 2.5 %."""
    sides: tuple[tuple[Side, Floats], ...] = (("too narrow", at_most), ("too wide", at_least))
    spans = []
    for side, tail in sides:
        outside = levels[tail < _POINTWISE_TAIL]
        if outside.size:
            spans.append(LevelRange(side, float(outside[0]), float(outside[-1])))
    return tuple(spans)
