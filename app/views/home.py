"""Home: the next sensible step, what comes out of it in one glance, and what the workspace holds."""

import session
import streamlit as st
from components.home.next_step import Holdings, Step, next_step
from components.home.results import demo_result, last_result
from components.shared import frame, stores, tables, uploads, words
from components.shared.heldout_runs import finished_runs
from components.shared.job_panel import job_panel

from bandgap.jobs.store import Job

LEAD = "Band gaps of crystals, each with an interval that says how sure it is, from some hundred gaps that you know."
SHOWN_RUNS, SHOWN_JOBS = 5, 3
STEPS = {
    "data": ("1. Data", ":material/table_view:", "Bring structures and the gaps that are known; each file is checked."),
    "train": (
        "2. Train",
        ":material/model_training:",
        "Choose a source model and a method; what they are worth is measured on structures held out.",
    ),
    "predict": (
        "3. Predict",
        ":material/batch_prediction:",
        "Bring structures without a gap; each gets a gap, an interval, and a warning where the model knows little.",
    ),
}
NOUNS = {
    "check": "check",
    "import_demo": "check",
    "import_folder": "check",
    "shapes": "reading",
    "domain": "comparison",
    "transfer": "transfer",
    "predict": "prediction",
    "train_source": "training of the source model",
}


def page() -> None:
    frame.heading("Home", LEAD)
    jobs = stores.jobs().jobs(session.workspace(), limit=500)
    holds = holdings(jobs)
    if holds.datasets:
        figures(holds)
    for job in [job for job in jobs if job.active][:SHOWN_JOBS]:
        job_panel(job, noun=NOUNS[job.kind])
    if step := next_step(holds):
        offer(step)
    finished = next(iter(finished_runs().values()), None)
    if finished:
        last_result(finished)
    recent_runs({job.id: job for job in jobs})
    if not finished:
        demo_result()
    steps()


def holdings(jobs: list[Job]) -> Holdings:
    library = stores.library()
    datasets = library.datasets(session.workspace())
    counts = [library.counts(dataset.id) for dataset in datasets]
    ended = [job.kind for job in jobs if job.state == "finished"]
    return Holdings(
        datasets=len(datasets),
        structures=sum(count["all"] for count in counts),
        labelled=max((count["usable"] for count in counts), default=0),
        active=sum(job.active for job in jobs),
        finished=ended.count("transfer"),
        predictions=ended.count("predict"),
    )


def figures(holds: Holdings) -> None:
    shown = {
        "Data sets": (holds.datasets, words.count(holds.structures, "structure")),
        "Labelled structures": (holds.labelled, "in the data set with most of them"),
        "Finished transfers": (holds.finished, words.count(holds.predictions, "prediction") + " made so far"),
    }
    for column, (label, (value, detail)) in zip(st.columns(len(shown)), shown.items(), strict=True):
        with column.container(border=True):
            st.metric(label, f"{value:,}")
            st.caption(detail)


def offer(step: Step) -> None:
    st.subheader("Next step", anchor=False)
    st.write(step.text)
    with st.container(horizontal=True, vertical_alignment="center"):
        if step.target == "demo":
            st.page_link("views/data.py", label="Bring your own structures", icon=":material/upload_file:")
        pressed = st.button(step.label, type="primary", icon=step.icon)
    if not pressed:
        return
    if step.target == "demo":
        uploads.add_demo()
    st.switch_page(f"views/{'data' if step.target == 'demo' else step.target}.py")


def steps() -> None:
    """Show the way in three steps, one sentence each."""
    st.subheader("Three steps", anchor=False)
    for column, (page, (label, icon, text)) in zip(st.columns(len(STEPS)), STEPS.items(), strict=True):
        with column.container(border=True, height="stretch"):
            st.page_link(f"views/{page}.py", label=label, icon=icon)
            st.caption(text)


def recent_runs(jobs: dict[str, Job]) -> None:
    runs = stores.library().runs(session.workspace(), limit=SHOWN_RUNS)
    if not runs:
        return
    names = stores.dataset_names(session.workspace())
    st.subheader("Latest runs", anchor=False)
    tables.show(tables.run_frame(runs, jobs, names), alt="The latest runs")
    st.page_link("views/train.py", label="All runs", icon=":material/arrow_forward:")


frame.show(page)
