"""Train: start trainings, follow their progress, resume, rename or delete a run."""

import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables
from app.components.shared.advice import advice, continue_button
from app.components.shared.bin_view import bin_expander
from app.components.shared.waiting import registered
from app.components.train.run_now import follow, manage, run_now
from app.components.train.run_setup import setup_form
from bandgap.jobs.queueing import active_first
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job


def page() -> None:
    frame.heading("Train", "Learn from your labelled structures; measure the error on others.")
    library = stores.library()
    workspace = session.workspace()
    datasets = stores.datasets()
    jobs = stores.run_jobs()
    runs = active_first(library.runs(workspace), lambda run: jobs.get(run.job))
    run = next(
        (run for run in runs if run.id == session.selected_id("run")), next(iter(runs), None)
    )
    job = None if run is None else jobs.get(run.job)
    is_primary = True
    is_form_first = run is None or session.trains_on() in datasets
    if run is not None and not is_form_first:
        session.choose("run", run.id)
        if job is not None:
            is_primary = not run_now(run, job)
    is_training = continue_button(shown_run=None if is_form_first else run)
    if not datasets:
        if is_primary:
            advice("train")
    elif registered("source", "method"):
        usable = {i: library.counts(i)["usable"] for i in datasets}
        place = st.container()
        if not is_form_first:
            place = st.expander("Start another training", expanded=not is_training)
        with place:
            setup_form(datasets, usable, primary=is_primary)
    if run is not None:
        run_list(runs, run, jobs)
    bin_expander()


def run_list(runs: list[RunRow], run: RunRow, jobs: dict[str, Job]) -> None:
    """Draw the table of runs, and what can be done with the selected one."""
    follow(stores.jobs_of("transfer"))
    st.subheader("Runs", anchor=False)
    table = tables.run_frame(runs, jobs, stores.dataset_names(session.workspace()))
    columns = {"run": tables.column("run", 420)}
    row = tables.pick(
        table, alt="Runs of this workspace", columns=columns, key=f"runs-{len(runs)}", rows=8
    )
    manage(run, jobs.get(run.job))
    downloads.table_csv(lambda: table, "runs.csv")
    if row is not None and runs[row].id != run.id:
        session.choose("run", runs[row].id)
        session.set_trains_on("")
        st.rerun()


page()
