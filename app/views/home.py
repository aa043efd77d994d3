"""Home: the contents of the workspace, the next step, and an example result."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import streamlit as st

from app import session
from app.components.data.data_upload import second_demo
from app.components.home.results import demo_result, last_result
from app.components.shared import downloads, frame, stores, tables, uploads, words
from app.components.shared.job_panel import job_panel
from app.components.shared.run_files import finished_runs
from app.components.shared.stores import MIN_LABELLED
from app.components.workspaces.browser import other_workspaces
from app.components.workspaces.workspace_list import continue_section, workspaces_section
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job

LEAD = (
    "Band gaps of crystals, each with an interval that says how sure it is, from some hundred gaps "
    "that you know."
)
SHOWN_RUNS = 5
SHOWN_JOBS = 3
ICONS = {
    "demo": ":material/science:",
    "data": ":material/table_view:",
    "train": ":material/model_training:",
    "predict": ":material/batch_prediction:",
    "result": ":material/task_alt:",
}
STEPS = {
    "data": "Upload structures and the gaps that are known; each file is checked.",
    "train": "Choose a source model and a method; what they are worth is measured on structures "
    "held out.",
    "predict": "Upload structures without a gap; each gets one with an interval, and a warning "
    "where little is known.",
}
Target = Literal["demo", "data", "train", "result", "predict"]


@dataclass(frozen=True)
class Contents:
    """Numbers of objects in a workspace.

    `labelled` is the largest number of labelled structures in one data set, `most_labelled` the
    name of that data set; `active` is the number of active jobs, `finished` that of finished
    transfers.
    """

    datasets: int
    structures: int
    labelled: int
    most_labelled: str
    active: int
    finished: int
    predictions: int


@dataclass(frozen=True)
class Step:
    """The next step: where its button leads, the label of the button, and what to do."""

    target: Target
    label: str
    text: str


def page() -> None:
    frame.heading("Home", LEAD)
    jobs = stores.jobs().jobs(session.workspace(), limit=500)
    contents = contents_of_workspace(jobs)
    for job in [job for job in jobs if job.active][:SHOWN_JOBS]:
        job_panel(job)
    workspaces = [] if jobs or contents.datasets else other_workspaces()
    if workspaces:
        continue_section(workspaces)
    if step := next_step(contents):
        offer(step, primary=not workspaces)
    if contents.datasets:
        figures(contents)
    finished = next(iter(_own_runs()), None)
    if finished:
        last_result(finished)
    recent_runs({job.id: job for job in jobs})
    if not finished:
        demo_result()
        steps()
    if not workspaces:
        workspaces_section()


def _own_runs() -> list[RunRow]:
    """Return the finished runs of the workspace without the shipped model, newest first."""
    shipped = stores.shipped_run().id
    return [run for run in finished_runs().values() if run.id != shipped]


def contents_of_workspace(jobs: list[Job]) -> Contents:
    library = stores.library()
    datasets = library.datasets(session.workspace())
    counts = [library.counts(dataset.id) for dataset in datasets]
    labelled = [count["usable"] for count in counts]
    most_labelled = datasets[int(np.argmax(labelled))].name if datasets else ""
    ended = [job.kind for job in jobs if job.state == "finished"]
    return Contents(
        datasets=len(datasets),
        structures=sum(count["all"] for count in counts),
        labelled=max(labelled, default=0),
        most_labelled=most_labelled,
        active=sum(job.active for job in jobs),
        finished=len(_own_runs()),
        predictions=ended.count("predict"),
    )


def figures(contents: Contents) -> None:
    rows = (
        ("Data sets", contents.datasets, words.count(contents.structures, "structure")),
        (
            "Labelled structures",
            contents.labelled,
            f"largest labelled data set: {words.escaped(contents.most_labelled)}"
            if contents.labelled
            else "no structure has a gap yet",
        ),
        (
            "Finished transfers",
            contents.finished,
            words.count(contents.predictions, "prediction") + " made so far",
        ),
    )
    for column, (label, value, detail) in zip(st.columns(len(rows)), rows, strict=True):
        with column.container(border=True, key=f"figure-{label}"):
            st.metric(label, f"{value:,}")
            st.caption(detail)


def offer(step: Step, *, primary: bool) -> None:
    st.subheader("Next step", anchor=False)
    st.write(step.text)
    second = False
    with st.container(horizontal=True, vertical_alignment="center"):
        if step.target == "demo" and st.button(
            "Upload your own structures", icon=":material/upload_file:"
        ):
            st.switch_page("views/data.py")
        pressed = st.button(
            step.label, type="primary" if primary else "secondary", icon=ICONS[step.target]
        )
    if step.target == "demo":
        if st.button("Predict band gaps of my crystals", icon=ICONS["predict"]):
            session.choose("run", stores.shipped_run().id)
            st.switch_page("views/predict.py")
        second = second_demo()
    if not pressed and not second:
        return
    if step.target == "demo":
        uploads.add_demo("demo-inorganic" if second else "demo")
    st.switch_page(f"views/{'data' if step.target == 'demo' else step.target}.py")


def steps() -> None:
    """Show the three steps of the work, one sentence each."""
    st.subheader("Three steps", anchor=False)
    for place, (column, (page, text)) in enumerate(
        zip(st.columns(len(STEPS)), STEPS.items(), strict=True), start=1
    ):
        with column.container(border=True, height="stretch"):
            st.page_link(
                f"views/{page}.py", label=f"{place}. {words.sentence(page)}", icon=ICONS[page]
            )
            st.caption(text)


def recent_runs(jobs: dict[str, Job]) -> None:
    runs = stores.library().runs(session.workspace(), limit=SHOWN_RUNS)
    if not runs:
        return
    names = stores.dataset_names(session.workspace())
    st.subheader("Latest runs", anchor=False)
    downloads.table_with_csv(
        tables.run_frame(runs, jobs, names), "latest-runs.csv", alt="The latest runs"
    )
    st.page_link("views/train.py", label="All runs", icon=":material/arrow_forward:")


def next_step(contents: Contents) -> Step | None:
    """Return the next step, or None while a job is active."""
    if contents.active:
        return None
    if not contents.datasets:
        return Step(
            "demo",
            "Use the demo data",
            "Start with the demo data: molecular crystals with known gaps, and a source model "
            "that was trained on other molecules. Or upload your own structures on the page Data. "
            "Without any known gap, a shipped model predicts PBE gaps of your crystals.",
        )
    if contents.labelled < MIN_LABELLED:
        return Step(
            "data",
            "Give structures their gaps",
            f"A transfer learns from at least {MIN_LABELLED} structures of a data set with a "
            f"known gap; the most so far: {contents.labelled}.",
        )
    if not contents.finished:
        count = words.count(contents.labelled, "labelled structure")
        return Step(
            "train", "Start a transfer", f"{count} can be learned from. Choose a method, and start."
        )
    if not contents.predictions:
        text = (
            "A model is ready. Predict the gaps of structures that have none, with an interval for "
            "each."
        )
        return Step("predict", "Predict new structures", text)
    text = "See how large the errors of a run are, for which structures, and what to do next."
    return Step("result", "See what the runs are good for", text)


frame.show(page)
