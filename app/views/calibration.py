"""Calibration: coverage of the intervals, for which crystals it is wrong, and a calibrator."""

import streamlit as st

from app.components.calibration import calibration_view
from app.components.calibration.calibrator_form import (
    calibrator_form,
    coverage_sentence,
    damaged_calibrator,
    share_besides_curve,
    stored_calibrator,
)
from app.components.calibration.metal_view import metal_view, semiconductors_sentence
from app.components.result.verdict_view import refit_caption
from app.components.shared import frame
from app.components.shared.run_choice import choose_interval, choose_run
from app.components.shared.run_files import read_calibrator, read_heldout_run, read_run
from bandgap.evaluation.calibrators import Calibrator, measured_part
from bandgap.evaluation.curve_verdict import CurveVerdict, curve_verdict
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.proposed_calibrator import proposed_kind
from bandgap.evaluation.reliability import coverage_of
from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.interval_kinds import IntervalKind


def page() -> None:
    frame.heading(
        "Calibration",
        "Whether the intervals have the stated coverage, measured on held-out crystals.",
    )
    run = choose_run("Calibration is measured on the structures that a finished transfer held out.")
    if run is None:
        return
    heldout = read_heldout_run(run)
    files = read_run(run.id)
    refit_caption(run, files.manifest)
    frame.warn(files.warnings)
    try:
        calibrator = read_calibrator(run.id)
    except ArtifactError as error:
        damaged_calibrator(run, error)
        calibrator = None
    level = measured(heldout, calibrator)
    st.subheader("Calibrate", anchor=False)
    if calibrator:
        stored_calibrator(run, calibrator, heldout)
        with st.expander("Fit another in its place"):
            calibrator_form(run, heldout, level=level)
    elif kind := proposed_kind(heldout):
        calibrator_form(run, heldout, level=level, proposed=kind)
    else:
        st.write(leave_sentence(curve_verdict(coverage_of(heldout, "prediction"))))
        with st.expander("Fit a calibrator all the same"):
            calibrator_form(run, heldout, level=level)


def leave_sentence(verdict: CurveVerdict) -> str:
    """Return why the intervals are best left as they are."""
    if verdict.deviates:
        return (
            "Leave the intervals as they are: calibrators were tried on halves of these structures "
            "and measured on the other halves, and none made the coverage reliably better."
        )
    return (
        "No calibrator is needed: chance explains how far the curve of the prediction intervals is "
        "from the diagonal."
    )


def measured(heldout: HeldOut, calibrator: Calibrator | None) -> float:
    """Draw the choice of the interval and all figures; return the level.

    With the calibrator the figures are of the structures that it was not fitted on.
    """
    measured_on = heldout
    before = None
    if calibrator and st.toggle(
        "With the calibrator", value=True, help=calibrator.sentence, key="calibrated"
    ):
        before = measured_part(heldout, calibrator)
        measured_on = HeldOut(calibrator.apply(before.predictions), before.gaps_eV)
    default: IntervalKind = calibrator.interval if calibrator and before else "prediction"
    level, kind, available = choose_interval(
        measured_on.predictions.conformal, key=f"kind-{default}", default=default
    )
    if available:
        figures(measured_on, before, level=level, kind=kind)
    return level


def figures(heldout: HeldOut, before: HeldOut | None, *, level: float, kind: IntervalKind) -> None:
    """Draw all figures of one kind of interval.

    `before` contains the same structures without the calibrator, if it is applied.
    """
    curve = coverage_of(heldout, kind)
    first = (
        None
        if before is None
        else coverage_of(before, "prediction" if kind == "conformal" else kind)
    )
    share = share_besides_curve(heldout, level, kind)
    text = coverage_sentence(curve, level, kind, share_in_interval=share)
    if kind == "prediction":
        text = f"{text} {semiconductors_sentence(heldout, level)}"
    st.markdown(text, width=720)
    has_metals = heldout.predictions.p_metal is not None
    labels = ["Coverage", *(["Metals"] if has_metals else []), "Width and error", "Groups"]
    parts = dict(zip(labels, st.tabs(labels), strict=True))
    with parts["Coverage"]:
        left_column, right_column = st.columns(2, gap="large")
        with left_column:
            calibration_view.coverage_view(curve, before=first, level=level, kind=kind)
        with right_column:
            calibration_view.pit_view(heldout)
    if has_metals:
        with parts["Metals"]:
            metal_view(heldout)
    with parts["Width and error"]:
        calibration_view.spread_views(heldout, level, kind)
    with parts["Groups"]:
        calibration_view.slices(heldout, level, kind)


frame.show(page)
