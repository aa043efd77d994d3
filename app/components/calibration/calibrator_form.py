"""The calibrator of a run's intervals, and the form that fits and stores it."""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import frame, stores, tables, words
from app.components.shared.guide_links import help_link
from bandgap.evaluation.calibration import CoverageCurve, chance_range
from bandgap.evaluation.calibrators import (
    KINDS,
    MIN_TEST,
    Calibrator,
    CalibratorKind,
    fit_calibrator,
    remove_calibrator,
    save_calibrator,
    smallest_set,
)
from bandgap.evaluation.heldout import HeldOut
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.rows import RunRow
from bandgap.predictions.interval_kinds import IntervalKind

KIND_NAMES: Mapping[CalibratorKind, str] = {
    "conformal": "conformal",
    "variance": "variance scaling",
}
KIND_HELP: Mapping[CalibratorKind, str] = {
    "conformal": "Reads the width off the errors of the crystals that it is fitted on, in units "
    "of the predicted standard deviation; no assumption on the model. Adds conformal intervals to "
    "Predict.",
    "variance": "Multiplies every predicted standard deviation by one factor. Changes the "
    "prediction intervals.",
}


def stored_calibrator(run: RunRow, calibrator: Calibrator) -> None:
    """Show the stored calibrator, its effect on other crystals, and the button that removes it."""
    st.markdown(f"{calibrator.sentence} Predict uses it.\n\n{change_sentence(calibrator)}")
    with st.expander("Before and after at several levels"):
        tables.show(change_frame(calibrator), alt="Coverage and width by level")
    _remove_button(run)


def damaged_calibrator(run: RunRow, error: BandgapError) -> None:
    """Show that the stored calibrator cannot be read, and the button that removes it."""
    frame.problem(error)
    _remove_button(run)


def calibrator_form(run: RunRow, heldout: HeldOut, *, level: float) -> None:
    """Draw the form with kind, share and seed, which fits, tests and stores a calibrator."""
    st.caption(needs_sentence(KINDS, level, len(heldout)), width=720)
    with st.form("calibrator", border=False):
        kind = st.radio(
            "Kind of calibrator",
            KINDS,
            format_func=lambda k: words.sentence(KIND_NAMES[k]),
            captions=[KIND_HELP[k] for k in KINDS],
        )
        left_column, right_column, _ = st.columns([2, 1, 2], gap="large")
        share = left_column.slider(
            "Share to fit on",
            10,
            90,
            50,
            5,
            format="%d %%",
            help=_SHARE_HELP + help_link("explanation/calibration", "Calibrators"),
        )
        seed = right_column.number_input(
            "Seed", 0, 2**31 - 1, 0, help="Fixes which crystals fall in which part."
        )
        if not st.form_submit_button("Fit and store the calibrator", type="primary"):
            return
    try:
        fitted = fit_calibrator(heldout, kind, share=share / 100, seed=int(seed), level=level)
        save_calibrator(stores.home().run_folder(run.id), fitted)
    except BandgapError as error:
        frame.problem(error)
        return
    session.set_message(f"{fitted.sentence} {change_sentence(fitted)}")
    st.rerun()


def change_frame(calibrator: Calibrator) -> pd.DataFrame:
    """Return coverage and mean width before and after, one row per level."""
    return pd.DataFrame(
        {
            "level": [words.percent(change.level) for change in calibrator.changes],
            "coverage before": [
                words.percent(change.coverage_before) for change in calibrator.changes
            ],
            "coverage after": [
                words.percent(change.coverage_after) for change in calibrator.changes
            ],
            "mean width before (eV)": [
                round(change.width_before_eV, 3) for change in calibrator.changes
            ],
            "mean width after (eV)": [
                round(change.width_after_eV, 3) for change in calibrator.changes
            ],
        }
    )


def _remove_button(run: RunRow) -> None:
    if st.button(
        "Remove the calibrator",
        help="The run's own intervals are shown again. Nothing else is touched.",
    ):
        remove_calibrator(stores.home().run_folder(run.id))
        session.set_message("The calibrator was removed; intervals are those of the model alone.")
        st.rerun()


_SHARE_HELP = (
    "The held-out crystals are split at random: this share fits the calibrator, which is then "
    "measured on the others. More to fit on makes it steadier, more to measure on makes the report "
    "surer."
)


def coverage_sentence(curve: CoverageCurve, level: float, kind: IntervalKind) -> str:
    """Return the coverage of the intervals at a level, the range of chance, and the conclusion."""
    nearest = int(abs(curve.levels - level).argmin())
    share = float(curve.coverages[nearest])
    low, high = (float(end[0]) for end in chance_range(curve.n, level))
    text = (
        f"**{words.percent(share)}** of {words.count(curve.n, 'known gap')} fall in their "
        f"{words.percent(level)} {kind} interval; by chance alone calibrated intervals would "
        f"contain {words.percent(low)} to {words.percent(high)}."
    )
    if kind == "credible":
        return (
            f"{text} A credible interval is that of the mean: single gaps scatter more and need "
            "not fall in it."
        )
    if share < low:
        return f"{text} The intervals are **too narrow**: fit a calibrator below."
    if share > high:
        return (
            f"{text} The intervals are **wider than needed**: safe, but a calibrator below may "
            "narrow them."
        )
    return f"{text} These crystals give no reason to distrust them."


def change_sentence(calibrator: Calibrator) -> str:
    """Return the effect of a calibrator at its highest level, on crystals not used for the fit."""
    if not calibrator.changes:
        return ""
    change = calibrator.changes[-1]
    low, high = (float(end[0]) for end in chance_range(calibrator.n_test, change.level))
    return (
        f"On {words.count(calibrator.n_test, 'other held-out crystal')}, "
        f"{words.percent(change.level)} intervals contained "
        f"{words.percent(change.coverage_before)} of the gaps before and contain "
        f"**{words.percent(change.coverage_after)}** now (chance: {words.percent(low)} to "
        f"{words.percent(high)}); their mean width went from {change.width_before_eV:.2f} to "
        f"{change.width_after_eV:.2f} eV."
    )


def needs_sentence(kinds: Sequence[CalibratorKind], level: float, n: int) -> str:
    """Return how many held-out crystals each kind of calibrator needs, and how many there are."""
    needs = ", ".join(
        f"{KIND_NAMES[kind]} {smallest_set(kind, level=level) + MIN_TEST}" for kind in kinds
    )
    return (
        f"There are {words.count(n, 'held-out crystal')}. Needed at {words.percent(level)}, "
        f"{MIN_TEST} of them to measure the change on: {needs}."
    )
