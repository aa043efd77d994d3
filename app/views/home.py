"""Home: what the workspace contains, the last result, and the next step."""

import streamlit as st

from app import session
from app.components.home.results import demo_result, last_result
from app.components.shared import frame, stores, uploads, words
from app.components.shared.advice import advice
from app.components.shared.job_panel import job_panel
from app.components.shared.run_files import finished_runs
from app.components.workspaces.browser import other_workspaces
from app.components.workspaces.workspace_list import continue_section, workspaces_section
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job

LEAD = (
    "Band gaps of crystals, each with an interval that says how sure it is, from some hundred gaps "
    "that you know."
)
SHOWN_JOBS = 3


def page() -> None:
    frame.heading("Home", LEAD)
    jobs = stores.jobs().jobs(session.workspace(), limit=500)
    if not jobs and not stores.library().datasets(session.workspace()):
        workspaces = other_workspaces()
        if workspaces:
            continue_section(workspaces)
        start(primary=not workspaces)
        demo_result()
        if not workspaces:
            workspaces_section()
        return
    library = stores.library()
    shipped = stores.shipped_run().id
    runs = [run for run in library.runs(session.workspace()) if run.id != shipped]
    finished = [run for run in runs if run.id in finished_runs()]
    contents(jobs, len(finished))
    active = [job for job in jobs if job.active]
    for job in active[:SHOWN_JOBS]:
        job_panel(job)
    if not active:
        advice("home", newest_dataset(runs))
    if finished:
        last_result(finished[0])
    workspaces_section()


def start(*, primary: bool) -> None:
    """Offer the ways to start in an empty workspace; `primary` is whether one is highlighted."""
    with st.container(horizontal=True):
        if st.button(
            "Use the demo data",
            type="primary" if primary else "secondary",
            icon=":material/science:",
        ):
            uploads.add_demo()
            st.switch_page("views/data.py")
        if st.button("Predict band gaps of my crystals", icon=":material/batch_prediction:"):
            session.choose("run", stores.shipped_run().id)
            st.switch_page("views/predict.py")
        if st.button("Upload your own structures", icon=":material/upload_file:"):
            st.switch_page("views/data.py")
    st.caption(
        "The demo has molecular crystals with known gaps. Predicting needs no gaps: a shipped "
        "model gives those of PBE. With known gaps of your own a model learns your level of theory."
    )


def contents(jobs: list[Job], n_runs: int) -> None:
    """Draw one line with the numbers of objects in the workspace."""
    library = stores.library()
    counts = [library.counts(row.id) for row in library.datasets(session.workspace())]
    predictions = [job for job in jobs if job.kind == "predict" and job.state == "finished"]
    numbers = {
        "data set": len(counts),
        "structure": sum(count["all"] for count in counts),
        "known gap": sum(count["usable"] for count in counts),
        "finished run": n_runs,
        "prediction": len(predictions),
    }
    st.markdown(" · ".join(words.count(n, noun) for noun, n in numbers.items() if n))


def newest_dataset(runs: list[RunRow]) -> str:
    """Return the id of the data set that was added or learned from last, "" without any."""
    library = stores.library()
    workspace = session.workspace()
    datasets = library.datasets(workspace) or library.datasets(workspace, purpose="prediction")
    times = {row.id: row.created for row in datasets}
    times |= {run.dataset: run.created for run in reversed(runs)}
    return max(times, key=times.__getitem__, default="")


frame.show(page)
