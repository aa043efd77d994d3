"""Tables on the calibration of a run's intervals: PIT bins, predicted spread, elements, formulas.

The ranges of chance are those of a calibrated model with independent structures: binomial for
shares, chi squared for root mean squares. Every table is a data frame whose column names contain
the unit.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtri

from bandgap.evaluation.calibration import CoverageCurve, chance_range, coverage_curve, pit
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metrics import coverage, mean_width, rmse
from bandgap.predictions.conformal import available
from bandgap.predictions.interval_kinds import IntervalKind

Floats = NDArray[np.float64]

MANY_FOR_PIT = 200  # structures from which the histogram has 20 bins instead of 10
LEAST_IN_GROUP = 5  # structures in a group of predicted spread
GROUPS = 10
ALIKE = 1e-6  # relative difference of spreads that are equal up to rounding
OTHERS = "all others"

_ELEMENT = re.compile(r"[A-Z][a-z]?")


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


def pit_table(heldout: HeldOut) -> pd.DataFrame:
    """Return the bins of the PIT histogram with the range of chance."""
    predictions = heldout.predictions
    values = pit(heldout.gaps_eV, predictions.quantiles_new, p_metal=predictions.p_metal)
    n = len(heldout)
    bins = 20 if n >= MANY_FOR_PIT else 10
    counts, ends = np.histogram(values, bins=bins, range=(0.0, 1.0))
    lower, upper = chance_range(n, 1.0 / bins)
    return pd.DataFrame(
        {
            "from": ends[:-1],
            "to": ends[1:],
            "structures": counts,
            "expected": n / bins,
            "chance_lower": n * lower[0],
            "chance_upper": n * upper[0],
        }
    )


def width_table(heldout: HeldOut, level: float, kind: IntervalKind) -> pd.DataFrame:
    """Return width, absolute error and coverage of every structure, the largest error first."""
    lower, upper = heldout.predictions.interval(level, kind)
    table = pd.DataFrame(
        {
            "id": pd.Series(list(heldout.predictions.ids), dtype="str"),
            "formula": pd.Series(list(heldout.predictions.formulas), dtype="str"),
            "width_eV": upper - lower,
            "error_eV": np.abs(heldout.errors_eV),
            "inside": (heldout.gaps_eV >= lower) & (heldout.gaps_eV <= upper),
        }
    )
    return table.sort_values("error_eV", ascending=False, ignore_index=True, kind="stable")


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


def element_table(heldout: HeldOut, level: float, kind: IntervalKind) -> pd.DataFrame:
    """Return error, coverage and width of the structures with an element, the most frequent element
    first.
    """
    elements_by_row = [
        sorted(set(_ELEMENT.findall(formula))) for formula in heldout.predictions.formulas
    ]
    counts = Counter(element for elements in elements_by_row for element in elements)
    rows_by_element = {
        element: [i for i, elements in enumerate(elements_by_row) if element in elements]
        for element, _ in _ranked(counts)
    }
    return _slices(heldout, rows_by_element, level, kind, name="element")


def formula_table(
    heldout: HeldOut, level: float, kind: IntervalKind, *, at_least: int = 2
) -> pd.DataFrame:
    """Return error, coverage and width by formula.

    Formulas of fewer than `at_least` structures share a row.
    """
    formulas = heldout.predictions.formulas
    ranked = [formula for formula, count in _ranked(Counter(formulas)) if count >= at_least]
    rows_by_formula = {
        formula: [i for i, row_formula in enumerate(formulas) if row_formula == formula]
        for formula in ranked
    }
    if other_rows := [
        i for i, row_formula in enumerate(formulas) if row_formula not in rows_by_formula
    ]:
        rows_by_formula[OTHERS] = other_rows
    return _slices(heldout, rows_by_formula, level, kind, name="formula")


def _slices(
    heldout: HeldOut,
    rows_by_value: Mapping[str, Sequence[int]],
    level: float,
    kind: IntervalKind,
    *,
    name: str,
) -> pd.DataFrame:
    """Return error, coverage and width by the value of the column `name`."""
    lower, upper = heldout.predictions.interval(level, kind)
    table_rows = []
    for value, row_numbers in rows_by_value.items():
        rows = np.asarray(row_numbers, dtype=np.int64)
        n = len(row_numbers)
        low, high = chance_range(n, level)
        gaps = heldout.gaps_eV[rows]
        table_rows.append(
            (
                value,
                n,
                rmse(gaps, heldout.predictions.mean_eV[rows]),
                coverage(gaps, lower[rows], upper=upper[rows]),
                float(low[0]),
                float(high[0]),
                mean_width(lower[rows], upper[rows]),
            )
        )
    names = [name, "structures", "rmse_eV", "coverage", "chance_lower", "chance_upper", "width_eV"]
    return pd.DataFrame(table_rows, columns=names)


def _ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
