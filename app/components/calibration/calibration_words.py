"""Sentences of the page Calibration: whether intervals hold what they state, and what a calibrator changed."""

from collections.abc import Mapping, Sequence

from bandgap.evaluation.calibration import CoverageCurve, chance_range
from bandgap.evaluation.calibrators import MIN_TEST, Calibrator, CalibratorKind, smallest_set
from bandgap.predictions.table import IntervalKind
from components.shared import words

KIND_NAMES: Mapping[CalibratorKind, str] = {"conformal": "conformal", "variance": "variance scaling"}
KIND_HELP: Mapping[CalibratorKind, str] = {
    "conformal": "Reads the width off the errors of the crystals that it is fitted on, in units of the predicted "
    "standard deviation; no assumption on the model. Adds conformal intervals to Predict.",
    "variance": "Multiplies every predicted standard deviation by one factor. Changes the prediction intervals.",
}


def coverage_sentence(curve: CoverageCurve, level: float, kind: IntervalKind) -> str:
    """Say how many gaps fall in their intervals of a level, what chance allows, and what to conclude."""
    near = int(abs(curve.levels - level).argmin())
    share, (low, high) = float(curve.coverages[near]), (float(end[0]) for end in chance_range(curve.n, level))
    text = (
        f"**{words.percent(share)}** of {words.count(curve.n, 'known gap')} fall in their {words.percent(level)} "
        f"{kind} interval; by chance alone calibrated intervals would hold {words.percent(low)} to "
        f"{words.percent(high)}."
    )
    if kind == "credible":
        return f"{text} A credible interval is that of the mean: single gaps scatter more and need not fall in it."
    if share < low:
        return f"{text} The intervals are **too narrow**: fit a calibrator below."
    if share > high:
        return f"{text} The intervals are **wider than needed**: safe, but a calibrator below may narrow them."
    return f"{text} These crystals give no reason to distrust them."


def change_sentence(calibrator: Calibrator) -> str:
    """Say what the calibrator changed at its highest measured level, on crystals that it had not seen."""
    if not calibrator.changes:
        return ""
    change = calibrator.changes[-1]
    low, high = (float(end[0]) for end in chance_range(calibrator.n_test, change.level))
    return (
        f"On {words.count(calibrator.n_test, 'other held-out crystal')}, {words.percent(change.level)} intervals held "
        f"{words.percent(change.coverage_before)} of the gaps before and hold "
        f"**{words.percent(change.coverage_after)}** now (chance: {words.percent(low)} to {words.percent(high)}); "
        f"their mean width went from {change.width_before_eV:.2f} to {change.width_after_eV:.2f} eV."
    )


def needs_sentence(kinds: Sequence[CalibratorKind], level: float, n: int) -> str:
    """Say how many held-out crystals each kind of calibrator needs, and how many there are."""
    needs = ", ".join(f"{KIND_NAMES[kind]} {smallest_set(kind, level=level) + MIN_TEST}" for kind in kinds)
    return (
        f"There are {words.count(n, 'held-out crystal')}. Needed at {words.percent(level)}, {MIN_TEST} of them to "
        f"measure the change on: {needs}."
    )
