"""The calibrator of a run's intervals: one button fits it, another removes it."""

from collections.abc import Mapping
from functools import partial

import streamlit as st

from app import session
from app.components.result.run_result import RunResult
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from bandgap.evaluation.calibration import chance_range
from bandgap.evaluation.calibrators import (
    Calibrator,
    CalibratorKind,
    fit_calibrator,
    remove_calibrator,
    save_calibrator,
)
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.proposed_calibrator import areas_on_others, kinds_of

KIND_NAMES: Mapping[CalibratorKind, str] = {
    "conformal": "Conformal",
    "variance": "Variance scaling",
}
KIND_HELP: Mapping[CalibratorKind, str] = {
    "conformal": "Width read off the errors of other crystals; no assumption on the model. Adds "
    "conformal intervals to Predict.",
    "variance": "One factor on every predicted standard deviation. Changes the prediction "
    "intervals.",
}


def calibrate_button(result: RunResult) -> None:
    """Draw the primary button that fits and stores the calibrator that was seen to help."""
    if result.proposed is not None and st.button(
        "Calibrate the intervals",
        type="primary",
        icon=":material/rule:",
        key=f"next-{result.run.id}",
        help=KIND_HELP[result.proposed] + help_link("explanation/calibration", "Calibrators"),
    ):
        _fit(result, result.proposed)


def calibrator_view(result: RunResult) -> None:
    """Draw the stored calibrator with its effect on other crystals, or the form that fits one."""
    if result.calibrator_problem is not None:
        frame.problem(result.calibrator_problem)
    calibrator = result.calibrator
    if calibrator is not None:
        st.markdown(f"{calibrator.sentence} {change_sentence(calibrator)}")
        frame.warn([worse_sentence(calibrator, result.heldout)])
    if calibrator is not None or result.calibrator_problem is not None:
        if st.button("Remove the calibrator", help="The run's own intervals are shown again."):
            carry_out(partial(_remove, result), "The calibrator was removed.")
        return
    if result.proposed is None and result.verdict.curve and result.verdict.curve.deviates:
        st.write(_LEAVE)
    with st.expander("Fit a calibrator"):
        kinds = kinds_of(result.heldout)
        kind = st.radio(
            "Kind of calibrator",
            kinds,
            format_func=KIND_NAMES.__getitem__,
            captions=[KIND_HELP[k] for k in kinds],
        )
        if st.button(
            "Fit and store the calibrator",
            help="A random half of the held-out crystals fits it, the others measure it."
            + help_link("explanation/calibration", "Calibrators"),
        ):
            _fit(result, kind)


def _fit(result: RunResult, kind: CalibratorKind) -> None:
    def store() -> None:
        fitted = fit_calibrator(result.heldout, kind)
        save_calibrator(stores.home().run_folder(result.run.id), fitted)
        worse = worse_sentence(fitted, result.heldout)
        session.set_message(
            f"{fitted.sentence} {change_sentence(fitted)} {worse}".strip(),
            tone="warning" if worse else "info",
            undo=partial(_remove, result),
        )

    carry_out(store)


def _remove(result: RunResult) -> None:
    remove_calibrator(stores.home().run_folder(result.run.id))


def worse_sentence(calibrator: Calibrator, heldout: HeldOut) -> str:
    """Return how the calibrator made the check crystals worse, or an empty text.

    The check crystals are those of `heldout`, the run's held-out structures, that the calibrator
    was not fitted on.
    """
    before, after = areas_on_others(heldout, calibrator)
    if after <= before or not calibrator.changes:
        return ""
    change = calibrator.changes[-1]
    ratio = change.width_after_eV / change.width_before_eV - 1
    width = f"{words.percent(abs(ratio))} {'wider' if ratio > 0 else 'narrower'}"
    return (
        f"It made these {words.count(calibrator.n_test, 'check crystal')} worse: miscalibration "
        f"area {before:.3f} without it and {after:.3f} with it, {words.percent(change.level)} "
        f"intervals {width}. Remove it in the tab Intervals."
    )


def change_sentence(calibrator: Calibrator) -> str:
    """Return the effect of a calibrator at its highest level, on crystals not used for the fit."""
    if not calibrator.changes:
        return ""
    change = calibrator.changes[-1]
    low, high = (float(end[0]) for end in chance_range(calibrator.n_test, change.level))
    before, after, low_text, high_text = words.percents(
        change.coverage_before, change.coverage_after, low, high
    )
    return (
        f"On {words.count(calibrator.n_test, 'other held-out crystal')}, "
        f"{words.percent(change.level)} intervals contained {before} of the gaps before and "
        f"contain **{after}** now (chance: {low_text} to {high_text}); their mean width went from "
        f"{change.width_before_eV:.2f} to {change.width_after_eV:.2f} eV."
    )


_LEAVE = (
    "Leave the intervals as they are: calibrators were tried on halves of these structures and "
    "measured on the other halves, and none made the coverage reliably better."
)
