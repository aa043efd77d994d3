"""Home: what the workspace contains, the last result, and the next step."""

import streamlit as st

from app import session
from app.components.home.results import demo_result, last_result
from app.components.shared import frame, stores, uploads, words
from app.components.shared.advice import advice
from app.components.shared.job_panel import job_panel
from app.components.shared.run_files import finished_runs
from app.components.workspaces.workspace_list import (
    continue_section,
    other_workspaces,
    workspaces_section,
)
from bandgap.jobs.store import Job

LEAD = (
    "Band gaps of crystals, each with an interval that says how sure it is: by a shipped model, or "
    "by one that learns from gaps that you know."
)
SHOWN_JOBS = 3


def page() -> None:
    frame.heading("Home", LEAD)
    jobs = stores.jobs().jobs(session.workspace(), limit=500)
    if not jobs and not stores.datasets():
        workspaces = other_workspaces()
        if workspaces:
            continue_section(workspaces)
        start(primary=not workspaces)
        demo_result()
        if not workspaces:
            workspaces_section()
        return
    shipped = stores.shipped_run().id
    finished = [run for run in finished_runs().values() if run.id != shipped]
    contents(jobs, len(finished))
    active = [job for job in jobs if job.active]
    for job in active[:SHOWN_JOBS]:
        job_panel(job)
    if not active:
        advice("home")
    if finished:
        last_result(finished[0])
    workspaces_section()


def start(*, primary: bool) -> None:
    """Offer the ways to start in an empty workspace; `primary` is whether one is highlighted."""
    with frame.row():
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
        if st.button("Train on gaps that I know", icon=":material/upload_file:"):
            st.switch_page("views/data.py")
    st.caption(
        "Predicting needs no gaps: a shipped model gives those of PBE, and says what to compute "
        "next. With known gaps of your own a model learns your level of theory. The demo has "
        "molecular crystals with known gaps."
    )


def contents(jobs: list[Job], n_runs: int) -> None:
    """Draw one line with the numbers of objects in the workspace."""
    counts = [stores.library().counts(dataset) for dataset in stores.datasets()]
    predictions = [job for job in jobs if job.kind == "predict" and job.state == "finished"]
    numbers = {
        "data set": len(counts),
        "structure": sum(count["all"] for count in counts),
        "known gap": sum(count["usable"] for count in counts),
        "finished run": n_runs,
        "prediction": len(predictions),
    }
    st.markdown(" · ".join(words.count(n, noun) for noun, n in numbers.items() if n))


page()
