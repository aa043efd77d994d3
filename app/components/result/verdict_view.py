"""The top of the page Result: the verdict with its badge, and the next step."""

from collections.abc import Mapping
from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.result import calibrator_view
from app.components.result.more_draws import enough_draws, more_draws
from app.components.result.run_result import RunResult
from app.components.shared import stores, words
from app.components.shared.actions import carry_out
from app.components.shared.estimate_words import rounded
from app.components.shared.guide_links import help_link
from bandgap.evaluation.heldout import refit_sentence
from bandgap.evaluation.result_verdict import NextStep, State, next_step
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.estimates import TransferTimes
from bandgap.jobs.refitting import parent_of, refit_of, request_for_all, start_refit
from bandgap.jobs.rows import RunRow

Colour = Literal["green", "orange", "red", "gray"]
BADGES: Mapping[State, tuple[Colour, str]] = {
    "good": ("green", ":material/check_circle:"),
    "fair": ("orange", ":material/warning:"),
    "poor": ("red", ":material/cancel:"),
    "unknown": ("gray", ":material/help:"),
}
REASONS: Mapping[NextStep, str] = {
    "more draws": "More draws come before everything else.",
    "calibrate": "The intervals miss their levels by more than chance. A calibrator made them "
    "better when it was tried on halves of these structures.",
    "refit": "The test is done: the labels that it held out can now improve the model.",
    "train": "Check ids and gaps on the page Data, then try another method or more labels.",
}


def verdict_view(result: RunResult) -> None:
    """Draw the badge and the sentence of the verdict."""
    verdict = result.verdict
    colour, icon = BADGES[verdict.state]
    with st.container(horizontal=True):
        st.badge(verdict.word, icon=icon, color=colour)
        if result.near_copies:
            st.badge(
                "Near-copies in the test: see Details and files",
                icon=BADGES["fair"][1],
                color="orange",
            )
    st.markdown(
        f"**{words.escaped_sentence(verdict.sentence)}**",
        width=720,
        help=f"{Quantity.RMSE.help} {Quantity.COVERAGE.help}"
        + help_link("explanation/reading-a-result", "The line at the top"),
    )


def next_step_view(result: RunResult) -> NextStep:
    """Draw the one primary button of the page, and why it is the next step; return the step."""
    run = result.run
    refit = existing_refit(run)
    can_refit = result.has_data and not result.is_refit and refit is None
    step = next_step(
        result.verdict,
        can_add_draws=(
            result.has_data and not result.is_refit and enough_draws(result.files, run) is not None
        ),
        can_calibrate=result.proposed is not None,
        can_refit=can_refit,
    )
    reason = REASONS.get(step, "")
    with st.container(horizontal=True, vertical_alignment="center"):
        if step == "more draws":
            more_draws(result, kind="primary")
        elif step == "refit":
            _refit_button(result)
        elif step == "calibrate":
            calibrator_view.calibrate_button(result)
        elif step == "train":
            _page_button("Train another way", "train", icon="model_training")
        else:
            finished = refit if refit is not None and _is_finished(refit) else None
            reason = _reason_to_predict(result, refit, finished)
            _page_button("Predict new structures", "predict", icon="batch_prediction", run=finished)
        if step != "predict":
            st.page_link(
                "views/predict.py",
                label="Predict new structures",
                icon=":material/batch_prediction:",
            )
    st.caption(reason, width=720)
    return step


def _page_button(label: str, page: str, *, icon: str, run: RunRow | None = None) -> None:
    if st.button(label, type="primary", icon=f":material/{icon}:", key=f"next-{page}"):
        if run is not None:
            session.choose("run", run.id)
        st.switch_page(f"views/{page}.py")


def _reason_to_predict(result: RunResult, refit: RunRow | None, finished: RunRow | None) -> str:
    if finished is not None:
        return "The refit on all labels is finished; Predict offers it first."
    if refit is not None:
        return "The refit on all labels is under way; until it is finished, this run predicts."
    if not result.verdict.chains_agree and not result.has_data:
        return "More draws need the data set of the run, which is not in this workspace."
    return "Nothing is left to do for this model."


def existing_refit(run: RunRow) -> RunRow | None:
    """Return the newest refit of a run in its workspace, finished or not; None without one."""
    runs = {row.id: row for row in stores.library().runs(run.workspace)}
    jobs = stores.jobs_of("transfer")
    refit = refit_of(run.id, runs, jobs)
    return refit if refit is not None and jobs[refit.job].is_current else None


def _is_finished(run: RunRow) -> bool:
    return stores.jobs_of("transfer")[run.job].state == "finished"


def parent_title(run: RunRow) -> str:
    """Return the title of the run that a run refits, "a deleted run" if it was deleted.

    Empty for other runs.
    """
    parent_id = parent_of(stores.jobs().job(run.workspace, run.job))
    if not parent_id:
        return ""
    parent = stores.library().run(run.workspace, parent_id)
    return "a deleted run" if parent is None else parent.title


def refit_caption(result: RunResult) -> None:
    """Draw whose test a refitted run reports; nothing for other runs."""
    if result.is_refit:
        text = refit_sentence(result.files.manifest, parent=parent_title(result.run))
        st.caption(text, width=720)


def _refit_button(result: RunResult) -> None:
    run = result.run
    n_labels = int(result.files.manifest["data"]["n_labelled"])
    times = TransferTimes(stores.jobs(), stores.library())
    estimate = times.estimate(request_for_all(run.request, n_labels))
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
