"""Tables on the calibration of a run's intervals: coverage and predicted spread.

The ranges of chance are those of a calibrated model with independent structures: binomial for
shares, chi squared for root mean squares. Every table is a data frame whose column names contain
the unit.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtri

from bandgap.evaluation.calibration import CoverageCurve, coverage_curve
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metrics import coverage
from bandgap.predictions.conformal import available
from bandgap.predictions.interval_kinds import IntervalKind

Floats = NDArray[np.float64]

LEAST_IN_GROUP = 5  # structures in a group of predicted spread
GROUPS = 10
ALIKE = 1e-6  # relative difference of spreads that are equal up to rounding


def coverage_of(heldout: HeldOut, kind: IntervalKind) -> CoverageCurve:
    """Return coverage against level from 0.01 to 0.99, for conformal intervals up to the highest
    possible.
    """
    predictions = heldout.predictions
    if kind != "conformal":
        if kind == "credible":
            return coverage_curve(heldout.gaps_eV, predictions.quantiles_mean)
        return coverage_curve(
            heldout.gaps_eV, predictions.quantiles_new, p_metal=predictions.p_metal
        )
    scores = available(predictions.conformal)
    levels = np.array([k / 100.0 for k in range(1, 100) if scores.reaches(k / 100.0)])
    shares = [share_inside(heldout, float(level), kind) for level in levels]
    return CoverageCurve(levels, np.array(shares, dtype=np.float64), len(heldout))


def share_inside(heldout: HeldOut, level: float, kind: IntervalKind) -> float:
    """Return the share of known gaps in their interval, as the tables state the interval.

    With metals it is not the coverage of `coverage_of`, which counts central intervals of the PIT.
    """
    lower, upper = heldout.predictions.interval(level, kind)
    return coverage(heldout.gaps_eV, lower, upper=upper)


def coverage_table(curve: CoverageCurve) -> pd.DataFrame:
    """Return level, coverage, and the range of chance at each level."""
    lower, upper = curve.band()
    values = {
        "level": curve.levels,
        "coverage": curve.coverages,
        "chance_lower": lower,
        "chance_upper": upper,
    }
    return pd.DataFrame(values)


def spread_table(heldout: HeldOut) -> pd.DataFrame:
    """Return the error by group of predicted standard deviation.

    There are ten groups with enough structures, fewer otherwise, and one if all predicted standard
    deviations are equal. `sd_eV` is their root mean square in a group. A calibrated model with
    normal errors has its `rmse_eV` between `chance_lower_eV` and `chance_upper_eV` in 95 of 100
    groups.
    """
    n = len(heldout)
    order = np.argsort(heldout.predictions.sd_new_eV, kind="stable")
    is_constant = (
        np.ptp(heldout.predictions.sd_new_eV) <= ALIKE * heldout.predictions.sd_new_eV.max()
    )
    groups = np.array_split(order, 1 if is_constant else max(1, min(GROUPS, n // LEAST_IN_GROUP)))
    rows = []
    for k, rows_of_group in enumerate(groups, start=1):
        m = rows_of_group.size
        sd = float(np.sqrt(np.mean(heldout.predictions.sd_new_eV[rows_of_group] ** 2)))
        error = float(np.sqrt(np.mean(heldout.errors_eV[rows_of_group] ** 2)))
        low, high = (sd * float(np.sqrt(chdtri(m, tail) / m)) for tail in (0.975, 0.025))
        rows.append((k, m, sd, error, low, high))
    names = ["group", "structures", "sd_eV", "rmse_eV", "chance_lower_eV", "chance_upper_eV"]
    return pd.DataFrame(rows, columns=names)
