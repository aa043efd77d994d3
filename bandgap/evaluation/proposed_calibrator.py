"""Whether a calibrator would help a run, by cross-fitting on its held-out structures.

A curve that chance does not explain is no reason for a calibrator by itself: a factor on the width
corrects no wrong shape. So each kind is fitted on `HALVES` random halves and measured on the other
half of each. It helps if it brings the coverage curve nearer to the diagonal in all but
`MOST_WORSE` of them, and in the first one, which the form of the dashboard proposes.
"""

from functools import lru_cache

import numpy as np

from bandgap.evaluation.calibration import CoverageCurve
from bandgap.evaluation.calibrators import (
    KINDS,
    MIN_TEST,
    Calibrator,
    CalibratorKind,
    calibrated_part,
    fit_calibrator,
    measured_part,
    smallest_set,
)
from bandgap.evaluation.curve_verdict import curve_verdict
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.reliability import coverage_of

HALVES = 10
MOST_WORSE = 1
LEVEL = 0.95


def kinds_of(heldout: HeldOut) -> tuple[CalibratorKind, ...]:
    """Return the kinds of calibrators of a run; with metals among the labels only conformal."""
    return KINDS if heldout.predictions.p_metal is None else ("conformal",)


def areas_on_others(heldout: HeldOut, calibrator: Calibrator) -> tuple[float, float]:
    """Return the miscalibration area without and with a calibrator, at the levels of both.

    It is that of the structures of `heldout` that the calibrator was not fitted on.
    """
    after = coverage_of(calibrated_part(heldout, calibrator), calibrator.interval)
    before = coverage_of(measured_part(heldout, calibrator), "prediction")
    shares = before.coverages[np.isin(before.levels, after.levels)]
    before = CoverageCurve(after.levels, shares, before.n)
    return before.miscalibration_area, after.miscalibration_area


@lru_cache(maxsize=4)  # a page asks at every click; held-out structures never change
def proposed_kind(heldout: HeldOut) -> CalibratorKind | None:
    """Return the kind of calibrator that helps most, None where none helps or none is needed."""
    if not curve_verdict(coverage_of(heldout, "prediction")).deviates:
        return None
    areas: dict[CalibratorKind, float] = {}
    for kind in kinds_of(heldout):
        n_fitted = round(len(heldout) / 2)
        if n_fitted < smallest_set(kind, level=LEVEL) or len(heldout) - n_fitted < MIN_TEST:
            continue
        pairs = [
            areas_on_others(heldout, fit_calibrator(heldout, kind, seed=seed, level=LEVEL))
            for seed in range(HALVES)
        ]
        is_better = [after < before for before, after in pairs]
        if is_better[0] and is_better.count(False) <= MOST_WORSE:
            areas[kind] = float(np.mean([after for _, after in pairs]))
    return min(areas, key=areas.__getitem__, default=None)
