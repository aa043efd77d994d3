"""Home: what the workspace holds, what is at work, and the next sensible step."""

import session
import streamlit as st
from components.home.next_step import Holdings, Step, next_step
from components.shared import frame, stores, tables, uploads, words
from components.shared.job_panel import job_panel

from bandgap.jobs.store import Job

SHOWN_RUNS, SHOWN_JOBS = 5, 3
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
    frame.heading("Home", "What this workspace holds, and what to do next.")
    jobs = stores.jobs().jobs(session.workspace(), limit=500)
    holds = holdings(jobs)
    if holds.datasets:
        figures(holds)
    for job in [job for job in jobs if job.active][:SHOWN_JOBS]:
        job_panel(job, noun=NOUNS[job.kind])
    if step := next_step(holds):
        offer(step)
    recent_runs({job.id: job for job in jobs})


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
    if step.target == "demo":
        st.page_link("views/data.py", label="Bring your own structures", icon=":material/upload_file:")
    if not st.button(step.label, type="primary", icon=step.icon):
        return
    if step.target == "demo":
        uploads.add_demo()
    st.switch_page(f"views/{'data' if step.target == 'demo' else step.target}.py")


def recent_runs(jobs: dict[str, Job]) -> None:
    runs = stores.library().runs(session.workspace(), limit=SHOWN_RUNS)
    if not runs:
        return
    names = stores.dataset_names(session.workspace())
    st.subheader("Latest runs", anchor=False)
    st.dataframe(tables.run_frame(runs, jobs, names), hide_index=True, height="content", alt="The latest runs")
    st.page_link("views/train.py", label="All runs", icon=":material/arrow_forward:")


frame.show(page)
