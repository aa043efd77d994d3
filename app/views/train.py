"""Train: choose data, source and method, start a transfer, watch it."""

import session
import streamlit as st
from components import frame, stores, tables
from components.job_panel import job_panel
from components.run_setup import setup_form

from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job


def page() -> None:
    frame.heading("Train", "Transfer a model of molecules to your crystals, and learn how far to trust it.")
    library, workspace = stores.library(), session.workspace()
    datasets = {d.id: d for d in library.datasets(workspace)}
    runs = library.runs(workspace)
    if not datasets:
        st.info("There are no data yet. A transfer needs structures with known gaps.", icon=":material/table_view:")
        st.page_link("views/data.py", label="Go to Data", icon=":material/arrow_forward:")
        return
    usable = {i: library.counts(i)["usable"] for i in datasets}
    left, right = st.columns([2, 3], gap="large")
    with left:
        setup_form(datasets, usable)
    with right:
        run_list(runs, {i: d.name for i, d in datasets.items()})


def run_list(runs: list[RunRow], names: dict[str, str]) -> None:
    if not runs:
        st.caption("Runs appear here. You may close this page while one is running: the address brings you back to it.")
        return
    jobs = {job.id: job for job in stores.jobs().jobs(session.workspace(), kinds=["transfer"], limit=500)}
    by_id = {run.id: run for run in runs}
    run = by_id.get(session.chosen("run"), runs[0])
    if run.job in jobs:
        present(run, jobs[run.job])
    st.subheader("Runs", anchor=False)
    table = tables.run_frame(runs, jobs, names)
    picked = st.dataframe(
        table,
        hide_index=True,
        height=tables.height(table, rows=8),
        on_select="rerun",
        selection_mode="single-row",
        key=f"runs-{len(runs)}",
        alt="Runs of this workspace",
    )
    rows = picked["selection"]["rows"]
    if rows and runs[rows[0]].id != run.id:
        session.choose("run", runs[rows[0]].id)
        st.rerun()


def present(run: RunRow, job: Job) -> None:
    session.choose("run", run.id)
    job_panel(job, noun="transfer")
    if job.state == "finished":
        left, right = st.columns(2)
        left.page_link("views/posterior.py", label="See what it learned", icon=":material/ssid_chart:")
        right.page_link("views/predict.py", label="Predict new structures", icon=":material/batch_prediction:")


frame.show(page)
