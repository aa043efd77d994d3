"""The top of the page Result: the verdict with its badge, and the next step."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.result import calibrator_view
from app.components.result.more_draws import more_draws
from app.components.result.report_button import parent_title, report_button
from app.components.result.run_result import RunResult
from app.components.shared import frame, stores, words
from app.components.shared.actions import carry_out
from app.components.shared.advice import advice
from app.components.shared.estimate_words import rounded
from app.components.shared.guide_links import help_link
from bandgap.evaluation.heldout import refit_sentence
from bandgap.evaluation.result_verdict import State
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.estimates import JobTimes
from bandgap.jobs.next_step import OF_VERDICT, REFIT_UNJUDGED, Step
from bandgap.jobs.refitting import request_for_all, start_refit
from bandgap.jobs.rows import RunRow

Colour = Literal["green", "orange", "red", "gray"]
BADGES: Mapping[State, tuple[Colour, str]] = {
    "good": ("green", ":material/check_circle:"),
    "fair": ("orange", ":material/warning:"),
    "poor": ("red", ":material/cancel:"),
    "unknown": ("gray", ":material/help:"),
}


def verdict_view(result: RunResult) -> None:
    """Draw the badge and the sentence of the verdict."""
    verdict = result.verdict
    colour, icon = BADGES[verdict.state]
    with frame.row():
        st.badge(verdict.word, icon=icon, color=colour)
        if result.near_copies:
            st.badge(
                "Near-copies in the test: see Details and files",
                icon=BADGES["fair"][1],
                color="orange",
            )
    st.markdown(
        f"**{words.escaped_sentence(verdict.sentence)}**",
        help=f"{Quantity.RMSE.help} {Quantity.COVERAGE.help}"
        + help_link("explanation/reading-a-result", "The line at the top"),
    )


def next_step_view(result: RunResult) -> Step:
    """Draw the one primary button of the page, and why it is the next step; return the step."""
    step = advice("result", result.run.dataset, result.run)
    with frame.row():
        if step == OF_VERDICT["more draws"]:
            more_draws(result, kind="primary")
        elif step in (OF_VERDICT["refit"], REFIT_UNJUDGED):
            _refit_button(result)
        elif step == OF_VERDICT["calibrate"]:
            calibrator_view.calibrate_button(result)
        if step.page != "predict":
            st.page_link(
                "views/predict.py",
                label="Predict new structures",
                icon=":material/batch_prediction:",
            )
        report_button(result.run)
    if step.page == "result":
        st.caption(step.reason)
    return step


def refit_caption(result: RunResult) -> None:
    """Draw whose test a refitted run reports; nothing for other runs."""
    if result.is_refit:
        text = refit_sentence(result.files.manifest, parent=parent_title(result.run))
        st.caption(text)


def _refit_button(result: RunResult) -> None:
    run = result.run
    n_labels = int(result.files.manifest["data"]["n_labelled"])
    request = request_for_all(run.request, n_labels)
    times = JobTimes(stores.jobs(), stores.library())
    estimate = times.transfer(run.dataset, run.source, request)
    time = "" if estimate is None else f" (about {rounded(estimate.seconds)})"
    if st.button(
        f"Refit on all {n_labels:,}{time}",
        type="primary",
        icon=":material/all_inclusive:",
        key=f"refit-{run.id}",
        help="The same run, learned from all labels, also from those that were held out. Its "
        "error stays that of this test. Predict then offers it first."
        + help_link("explanation/calibration", "Refit on all labels"),
    ):
        carry_out(partial(_start_refit, run), page="train")


def _start_refit(run: RunRow) -> None:
    session.choose("run", start_refit(stores.jobs(), stores.library(), run).run)
