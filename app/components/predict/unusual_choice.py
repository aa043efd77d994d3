"""The choice of the page Predict for intervals of unusual structures, and its measured effect."""

from typing import Literal

import streamlit as st

from app.components.shared import frame
from app.components.shared.guide_links import help_link
from app.components.shared.run_files import read_calibrator, read_heldout_run
from bandgap.evaluation.changed_intervals import changed_coverage, changed_coverage_sentence
from bandgap.evaluation.heldout import HeldOut
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.rows import RunRow
from bandgap.predictions.domain import UNUSUAL
from bandgap.predictions.withholding import IntervalChanges
from bandgap.runs.requests import PredictRequest

Change = Literal["as they are", "widened", "withheld"]
CHANGES: tuple[Change, ...] = ("as they are", "widened", "withheld")


def choose_interval_changes() -> IntervalChanges:
    """Draw the choice of what happens to intervals below a p-value, and return it."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        change: Change = (
            st.segmented_control(
                "Intervals of unusual structures",
                CHANGES,
                default=CHANGES[0],
                key="unusual-intervals",
                help=_HELP + help_link("explanation/applicability", "Wider intervals, or none"),
            )
            or CHANGES[0]
        )
        if change == CHANGES[0]:
            return IntervalChanges()
        below_p = st.number_input(
            "p-value below",
            min_value=0.001,
            max_value=1.0,
            value=UNUSUAL,
            step=0.01,
            format="%g",
            key="unusual-below",
            width=140,
        )
        if change == "withheld":
            return IntervalChanges(withhold_below_p=below_p)
        factor = st.number_input(
            "times wider",
            min_value=1.1,
            max_value=100.0,
            value=2.0,
            step=0.5,
            format="%g",
            key="unusual-factor",
            width=140,
        )
    return IntervalChanges(widen_below_p=below_p, widen_factor=factor)


def changes_sentence(run: RunRow, request: PredictRequest) -> str:
    """Return how many held-out structures of a run its changed and its other intervals cover.

    Empty, with the error on the page, where the run's folder is damaged.
    """
    changes = request.interval_changes
    level = request.probability
    try:
        heldout = read_heldout_run(run)
        if calibrator := read_calibrator(run.id):
            heldout = HeldOut(calibrator.apply(heldout.predictions), heldout.gaps_eV)
        coverage = changed_coverage(heldout, changes, level=level, kind=request.interval)
    except InputError:  # nothing was held out
        coverage = None
    except BandgapError as error:
        frame.problem(error)
        return ""
    return changed_coverage_sentence(coverage, changes, level=level)


_HELP = (
    "Widened: standard deviation and interval are multiplied. Withheld: they are left out. Both "
    "also for structures with an unseen element. The p-value changes no interval by itself."
)
