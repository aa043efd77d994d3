"""The top of the page Result: the verdict with its badge, key numbers and the next step."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import streamlit as st

from app import session
from app.components.posterior.more_draws import enough_draws, more_draws
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
COLOURS: Mapping[State, Colour] = {
    "good": "green",
    "fair": "orange",
    "poor": "red",
    "unknown": "gray",
}
ICONS: Mapping[State, str] = {
    "good": ":material/check_circle:",
    "fair": ":material/warning:",
    "poor": ":material/cancel:",
    "unknown": ":material/help:",
}


def verdict_view(result: RunResult) -> None:
    """Draw the badge and the sentence of the verdict."""
    verdict = result.verdict
    st.badge(verdict.word, icon=ICONS[verdict.state], color=COLOURS[verdict.state])
    st.markdown(
        f"**{words.escaped_sentence(verdict.sentence)}**",
        width=720,
        help=Quantity.RMSE.help
        + " "
        + Quantity.COVERAGE.help
        + help_link("explanation/reading-a-result", "The line at the top"),
    )


def next_step_view(result: RunResult) -> NextStep:
    """Draw the one primary button of the page, and why it is the next step; return the step."""
    refit = existing_refit(result.run)
    is_refit = "refit" in result.files.manifest
    can_refit = not is_refit and refit is None
    datasets = {dataset.id for dataset in stores.library().datasets(result.run.workspace)}
    has_data = result.run.dataset in datasets
    step = next_step(
        result.verdict,
        can_add_draws=(
            has_data and not is_refit and enough_draws(result.files, result.run) is not None
        ),
        can_calibrate=result.can_calibrate,
        can_refit=can_refit and has_data,
    )
    if step == "refit":
        _refit_button(result, kind="primary")
        _predict_link()
        return step
    if step == "more draws":
        more_draws(result.files, result.run, kind="primary")
        st.caption(NEXT_REASONS[step], width=720)
        _predict_link()
        return step
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            NEXT_LABELS[step], type="primary", icon=NEXT_ICONS[step], key=f"next-{result.run.id}"
        ):
            if step == "predict" and refit is not None and _is_finished(refit):
                session.choose("run", refit.id)
            st.switch_page(NEXT_PAGES[step])
        if can_refit and has_data and step != "train":
            _refit_button(result, kind="secondary")
    reason = NEXT_REASONS[step]
    if step == "predict" and refit is not None:
        reason = (
            "The refit on all labels is finished; Predict offers it first."
            if _is_finished(refit)
            else "The refit on all labels is under way; until it is finished, this run predicts."
        )
    elif step == "predict" and not result.verdict.chains_agree and not has_data:
        reason = (
            "The chains have not agreed. More draws need the data set of the run, which is not in "
            "this workspace."
        )
    st.caption(reason, width=720)
    if step != "predict":
        _predict_link()
    return step


def _predict_link() -> None:
    """Draw the link to the page Predict, where predicting is not the next step."""
    st.page_link("views/predict.py", label=NEXT_LABELS["predict"], icon=NEXT_ICONS["predict"])


def existing_refit(run: RunRow) -> RunRow | None:
    """Return the newest refit of a run in its workspace, finished or not; None without one."""
    runs = {row.id: row for row in stores.library().runs(run.workspace)}
    jobs = stores.jobs_of("transfer")
    refit = refit_of(run.id, runs, jobs)
    if refit is None:
        return None
    return refit if jobs[refit.job].is_current else None


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


def refit_caption(run: RunRow, manifest: Mapping[str, Any]) -> None:
    """Draw whose test a refitted run reports; nothing for other runs."""
    if "refit" in manifest:
        st.caption(refit_sentence(manifest, parent=parent_title(run)), width=720)


def _refit_button(result: RunResult, *, kind: Literal["primary", "secondary"]) -> None:
    run = result.run
    n_labels = int(result.files.manifest["data"]["n_labelled"])
    if st.button(
        f"Refit on all {n_labels:,}{_refit_time(run, n_labels)}",
        type=kind,
        icon=":material/all_inclusive:",
        key=f"refit-{run.id}",
        help="The same run, learned from all labels, also from those that were held out. Its "
        "error stays that of this test. Predict then offers it first."
        + help_link("explanation/calibration", "Refit on all labels"),
    ):
        carry_out(partial(_start_refit, run), page="train")
    if kind == "primary":
        n_unseen = n_labels - result.files.n
        st.caption(
            f"The test is done: {words.count(n_unseen, 'label')} that this run did not learn from "
            "can now improve it.",
            width=720,
        )


def _start_refit(run: RunRow) -> None:
    session.choose("run", start_refit(stores.jobs(), stores.library(), run).run)


def _refit_time(run: RunRow, n_labels: int) -> str:
    """Return the estimated time of the refit in brackets, "" where there is no estimate."""
    times = TransferTimes(stores.jobs(), stores.library())
    estimate = times.estimate(request_for_all(run.request, n_labels))
    return "" if estimate is None else f" (about {rounded(estimate.seconds)})"


NEXT_LABELS: Mapping[NextStep, str] = {
    "calibrate": "Calibrate the intervals",
    "predict": "Predict new structures",
    "train": "Train another way",
}
NEXT_ICONS: Mapping[NextStep, str] = {
    "calibrate": ":material/rule:",
    "predict": ":material/batch_prediction:",
    "train": ":material/model_training:",
}
NEXT_PAGES: Mapping[NextStep, str] = {
    "calibrate": "views/calibration.py",
    "predict": "views/predict.py",
    "train": "views/train.py",
}
NEXT_REASONS: Mapping[NextStep, str] = {
    "more draws": "More draws come before everything else.",
    "calibrate": "Chance does not explain the coverage of the intervals. A calibrator was tried on "
    "halves of these structures and made it better.",
    "predict": "Nothing is left to do for this model.",
    "train": "Check ids and gaps on the page Data, then try another source model or method, or "
    "more labels.",
}
