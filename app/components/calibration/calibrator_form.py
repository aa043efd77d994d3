"""The calibrator of a run's intervals, and the form that fits and stores it."""

from collections.abc import Mapping
from typing import Literal

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from app.components.shared.guide_links import help_link
from bandgap.evaluation.calibration import CoverageCurve, chance_range
from bandgap.evaluation.calibrators import (
    Calibrator,
    CalibratorKind,
    fit_calibrator,
    remove_calibrator,
    save_calibrator,
)
from bandgap.evaluation.curve_verdict import CurveVerdict, LevelRange, curve_verdict
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.proposed_calibrator import areas_on_others, kinds_of
from bandgap.evaluation.reliability import share_inside
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


def stored_calibrator(run: RunRow, calibrator: Calibrator, heldout: HeldOut) -> None:
    """Show the stored calibrator, its effect on other crystals, and the button that removes it."""
    st.markdown(f"{calibrator.sentence} Predict uses it.\n\n{change_sentence(calibrator)}")
    if text := worse_sentence(calibrator, heldout):
        st.warning(text, icon=":material/warning:")
    _remove_button(run)


def damaged_calibrator(run: RunRow, error: BandgapError) -> None:
    """Show that the stored calibrator cannot be read, and the button that removes it."""
    frame.problem(error)
    _remove_button(run)


def calibrator_form(
    run: RunRow, heldout: HeldOut, *, level: float, proposed: CalibratorKind | None = None
) -> None:
    """Draw the form with kind, share and seed, which fits, tests and stores a calibrator.

    The kind that is `proposed` is selected, and the button is the primary one of the page.
    """
    kinds = kinds_of(heldout)
    with st.form("calibrator", border=False):
        kind = st.radio(
            "Kind of calibrator",
            kinds,
            kinds.index(proposed) if proposed else 0,
            format_func=lambda k: words.sentence(KIND_NAMES[k]),
            captions=[KIND_HELP[k] for k in kinds],
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
        button: Literal["primary", "secondary"] = "primary" if proposed else "secondary"
        if not st.form_submit_button("Fit and store the calibrator", type=button):
            return
    try:
        fitted = fit_calibrator(heldout, kind, share=share / 100, seed=int(seed), level=level)
        save_calibrator(stores.home().run_folder(run.id), fitted)
    except BandgapError as error:
        frame.problem(error)
        return
    worse = worse_sentence(fitted, heldout)
    session.set_message(
        " ".join(filter(None, [fitted.sentence, change_sentence(fitted), worse])),
        tone="warning" if worse else "info",
    )
    st.rerun()


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


def share_besides_curve(heldout: HeldOut, level: float, kind: IntervalKind) -> float | None:
    """Return the share of gaps in their interval where the curve counts the PIT, as with metals.

    None where the curve counts the intervals themselves.
    """
    if heldout.predictions.p_metal is None or kind != "prediction":
        return None
    return share_inside(heldout, level, kind)


def coverage_sentence(
    curve: CoverageCurve, level: float, kind: IntervalKind, *, share_in_interval: float | None
) -> str:
    """Return the coverage at a level, the range of chance, and the verdict on the whole curve.

    `share_in_interval` is that of `share_besides_curve`.
    """
    nearest = int(abs(curve.levels - level).argmin())
    share = float(curve.coverages[nearest])
    low, high = (float(end[0]) for end in chance_range(curve.n, level))
    share_text, low_text, high_text = words.percents(share, low, high)
    gaps = words.count(curve.n, "known gap")
    interval = f"{words.percent(level)} {kind} interval"
    if share_in_interval is None:
        text = (
            f"**{share_text}** of {gaps} fall in their {interval}; by chance alone calibrated "
            f"intervals would contain {low_text} to {high_text}."
        )
    else:
        text = (
            f"**{words.percent(share_in_interval)}** of {gaps} fall in their {interval}. With "
            "metals an interval that begins at zero may contain more than its level, so the curve "
            f"counts central intervals of the PIT: {share_text} at this level, where chance alone "
            f"gives {low_text} to {high_text}."
        )
    if kind == "credible":
        return (
            f"{text} A credible interval is that of the mean: single gaps scatter more and need "
            "not fall in it."
        )
    verdict = curve_verdict(curve)
    if verdict.deviates:
        return f"{text} {deviation_sentence(verdict)}"
    if low <= share <= high:
        return (
            f"{text} The whole curve lies within what chance explains: these crystals give no "
            "reason to distrust the intervals."
        )
    side = "too narrow" if share < low else "wider than needed"
    return (
        f"{text} At this level they look {side}, but the whole curve lies within what chance "
        "explains."
    )


def deviation_sentence(verdict: CurveVerdict) -> str:
    """Return at which levels the intervals are too narrow or too wide."""
    places = [f"**{place.side}** at {_levels(place)}" for place in verdict.ranges]
    where = f"The intervals are {' and '.join(places)}. " if places else ""
    return f"{where}The curve is farther from the diagonal than chance explains."


def _levels(place: LevelRange) -> str:
    if place.lowest == place.highest:
        return f"the level {words.percent(place.lowest)}"
    return f"levels between {100 * place.lowest:.0f} and {words.percent(place.highest)}"


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
        f"intervals {width}. Remove the calibrator at the end of the page Calibration."
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
        f"{words.percent(change.level)} intervals contained "
        f"{before} of the gaps before and contain **{after}** now (chance: {low_text} to "
        f"{high_text}); their mean width went from {change.width_before_eV:.2f} to "
        f"{change.width_after_eV:.2f} eV."
    )
