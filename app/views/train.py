"""Train: start transfers, follow their progress, resume, rename or delete a run."""

from collections.abc import Mapping

import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables
from app.components.shared.bin_view import bin_expander
from app.components.shared.job_panel import job_panel
from app.components.shared.waiting import registered
from app.components.train.run_now import cancel_all, follow, manage_expander, run_now
from app.components.train.run_setup import setup_form
from bandgap.jobs.queueing import active_first
from bandgap.jobs.resuming import STOPPED
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job


def page() -> None:
    sections()
    bin_expander()


def sections() -> None:
    """Draw all of the page but the bin."""
    frame.heading("Train", "Transfer a source model to your crystals.")
    library = stores.library()
    workspace = session.workspace()
    datasets = {d.id: d for d in library.datasets(workspace)}
    jobs = stores.run_jobs()
    runs = active_first(library.runs(workspace), lambda run: jobs.get(run.job))
    is_form_first = session.trains_on() in datasets
    if runs and not is_form_first:
        run_list(runs, jobs, stores.dataset_names(workspace))
    if not datasets:
        frame.send_on(
            "There are no data yet. A transfer needs structures with known gaps.", to="data"
        )
        return
    usable = {i: library.counts(i)["usable"] for i in datasets}
    if not registered("source", "method"):
        return
    if not runs:
        setup_form(datasets, usable)
        st.caption(
            "Runs appear here. You may close this page while one is running: the address brings "
            "you back to it."
        )
        return
    job = jobs.get(selected_run(runs).job)
    is_primary = job is None or job.state not in STOPPED
    if is_form_first:
        setup_form(datasets, usable, primary=is_primary)
        run_list(runs, jobs, stores.dataset_names(workspace))
        return
    with st.expander(
        "Start other transfers", expanded=not any(job.active for job in jobs.values())
    ):
        setup_form(datasets, usable, primary=is_primary)


def selected_run(runs: list[RunRow]) -> RunRow:
    present = session.selected_id("run")
    return next((run for run in runs if run.id == present), runs[0])


def is_active(run: RunRow, jobs: Mapping[str, Job]) -> bool:
    return run.job in jobs and jobs[run.job].active


def run_list(runs: list[RunRow], jobs: dict[str, Job], names: dict[str, str]) -> None:
    run = selected_run(runs)
    session.choose("run", run.id)
    if is_active(runs[0], jobs) and not is_active(run, jobs):
        job_panel(jobs[runs[0].job])
    if run.job in jobs:
        run_now(run, jobs[run.job])
    transfers = stores.jobs_of("transfer")
    follow(transfers)
    st.subheader("Runs", anchor=False)
    table = tables.run_frame(runs, jobs, names)
    key = f"runs-{len(runs)}"
    row = tables.pick(
        table, alt="Runs of this workspace", columns=tables.run_columns(table), key=key, rows=8
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if any(job.state == "finished" for job in jobs.values()):
            st.page_link(
                "views/compare.py", label="Errors and notes", icon=":material/compare_arrows:"
            )
        downloads.table_csv(lambda: table, "runs.csv")
    cancel_all(transfers)
    manage_expander(run, jobs.get(run.job))
    if row is not None and runs[row].id != run.id:
        session.choose("run", runs[row].id)
        st.rerun()


frame.show(page)
