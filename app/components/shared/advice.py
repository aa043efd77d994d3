"""The next step on a page: the facts that it depends on, its button, and the reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import streamlit as st

from app import session
from app.components.result.more_draws import enough_draws
from app.components.result.run_result import read_result
from app.components.shared import frame, stores, words
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.next_step import (
    PREDICT_WITHOUT_LABELS,
    TRAIN,
    TRAIN_BETTER,
    Facts,
    Page,
    Step,
    next_step,
)
from bandgap.jobs.refitting import refit_of
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job
from bandgap.sources.cards import NO_SOURCE

# The page that shows a job. While a job of another kind is active, the next step can be taken.
_PAGES: Mapping[str, Page] = {
    "check": "data",
    "import_demo": "data",
    "import_folder": "data",
    "label_calculations": "data",
    "transfer": "train",
    "predict": "predict",
}
_ICONS: Mapping[Page, str] = {
    "data": ":material/table_view:",
    "train": ":material/model_training:",
    "result": ":material/task_alt:",
    "predict": ":material/batch_prediction:",
}


def advice(
    page: str,
    dataset: str | None = None,
    run: RunRow | None = None,
    *,
    kind: Literal["primary", "secondary"] = "primary",
    is_narrow: bool = False,
) -> Step:
    """Draw the button of the next step, unless it is taken on this page; return the step.

    Parameters
    ----------
    page
        The page that is drawn.
    dataset
        Id of the data set that it shows, by default the one that was used last.
    run
        The run that it shows, by default the newest one on the data set.
    kind
        The button is secondary where the page has a primary one.
    is_narrow
        The reason is a help text, as there is no place beside the button.
    """
    if dataset is None:
        dataset = _newest_dataset()
    facts, newest_run = _facts(dataset, run)
    step = next_step(facts)
    if step.page == page:
        return step
    reason = step.reason
    if step == TRAIN_BETTER and newest_run is not None:
        reason += _better_way(newest_run)
    with st.container(width="content") if is_narrow else frame.row():
        # The key names the step: a press counts for the step that the user saw, also where a job
        # has ended since.
        pressed = st.button(
            step.label,
            type=kind,
            icon=_ICONS[step.page],
            key=f"next-{step.label}",
            help=reason if is_narrow else None,
        )
        if not is_narrow:
            st.caption(reason, width="content")
    if pressed:
        run = stores.shipped_run() if step is PREDICT_WITHOUT_LABELS else newest_run
        if run is not None:
            session.choose("run", run.id)
        if dataset in stores.dataset_names(session.workspace()):
            session.choose("data", dataset)
        session.set_trains_on(dataset if step in (TRAIN, TRAIN_BETTER) else "")
        st.switch_page(f"views/{step.page}.py")
    return step


def _better_way(run: RunRow) -> str:
    """Return the proposed method and levels, if they were measured and are not those of the run."""
    dataset = stores.datasets().get(run.dataset)
    methods = stores.library().methods()
    if dataset is None:
        return ""
    transfers = run.source != NO_SOURCE
    best = stores.proposal(stores.target(dataset, run.request.n), transfers=transfers)
    is_same = (best.method, best.levels) == (run.method, run.request.levels or "none")
    if is_same or not best.measured or best.method not in methods:
        return " No other method is known to be better on crystals like these: add labels."
    levels = "" if best.levels == "none" else f" with {best.levels} levels"
    return (
        f" Then try {methods[best.method].title}{levels}, the best of what was measured on "
        "crystals like these."
    )


def continue_button(shown_run: RunRow | None = None) -> bool:
    """Draw the button that opens the run that is training, unless it is shown; return if one is."""
    jobs = stores.run_jobs()
    runs = stores.library().runs(session.workspace())
    run = next((run for run in runs if run.job in jobs and jobs[run.job].active), None)
    if run is not None and run != shown_run:
        label = f"Continue: {words.escaped(run.title)} (a training is running)"
        if st.button(label, key="continue-run", type="tertiary", icon=":material/arrow_forward:"):
            session.set_trains_on("")
            session.choose("run", run.id)
            st.switch_page("views/train.py")
    return run is not None


def _newest_dataset() -> str:
    """Return the id of the data set that was added or learned from last, "" without any."""
    library = stores.library()
    workspace = session.workspace()
    datasets = list(stores.datasets().values())
    datasets = datasets or library.datasets(workspace, purpose="prediction")
    times = {row.id: row.created for row in datasets}
    shipped = stores.shipped_run().id
    runs = reversed(library.runs(workspace))
    times |= {run.dataset: run.created for run in runs if run.id != shipped}
    return max(times, key=times.__getitem__, default="")


def _facts(dataset: str, shown_run: RunRow | None) -> tuple[Facts, RunRow | None]:
    """Return the facts of a data set and of a run, by default the newest one on it; and the run."""
    library = stores.library()
    workspace = session.workspace()
    jobs = {job.id: job for job in stores.jobs().jobs(workspace, limit=500)} | stores.run_jobs()
    runs = {
        row.id: row
        for row in library.runs(workspace)
        if row.dataset == dataset and row.job in jobs and jobs[row.job].state != "cancelled"
    }
    run = shown_run or next(iter(runs.values()), None)
    refit = None if run is None else refit_of(run.id, runs, jobs)
    own_runs = {row.id for row in (run, refit) if row is not None}
    counts = library.counts(dataset)
    facts = Facts(structures=counts["all"] - counts["refused"], labelled=counts["usable"])
    for job in jobs.values():
        is_about = dataset in (job.subject, job.payload.get("dataset"))
        is_of_run = job.payload.get("run") in own_runs if own_runs else is_about
        if job.active and job.kind in _PAGES and (is_about if shown_run is None else is_of_run):
            facts = replace(facts, active=_PAGES[job.kind])
        if is_of_run and job.kind == "predict" and job.state == "finished":
            facts = replace(facts, predictions=facts.predictions + 1)
    if run is None or run.job not in jobs:
        return facts, run
    state = jobs[run.job].state
    if state == "failed" or state == "interrupted":
        facts = replace(facts, run=state)
    elif state == "finished":
        facts = _with_result(replace(facts, run="finished"), run, refit, jobs)
    return facts, run


def _with_result(facts: Facts, run: RunRow, refit: RunRow | None, jobs: Mapping[str, Job]) -> Facts:
    """Return the facts with those of a finished run, unchanged where its files are damaged.

    A demo is predicted with before it is refitted, as a refit takes minutes.
    """
    try:
        result = read_result(run)
    except BandgapError:
        return facts
    can_start = result.has_data and not result.is_refit
    is_new_demo = result.dataset and result.dataset.origin in DEMOS and not facts.predictions
    return replace(
        facts,
        verdict=result.verdict,
        can_add_draws=can_start and enough_draws(result.files, run) is not None,
        can_calibrate=result.proposed is not None,
        can_refit=can_start
        and not is_new_demo
        and (refit is None or not jobs[refit.job].is_current),
    )
