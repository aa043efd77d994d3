"""Data: upload structures, read verdicts, set known gaps, rename, delete."""

from functools import partial

import pandas as pd
import streamlit as st

from app import session
from app.components.data.calculations_view import calculations_expander, calculations_view
from app.components.data.data_upload import demo_button, first_visit, second_demo, upload_form
from app.components.data.domain_view import domain_view
from app.components.data.element_choice import choose_elements
from app.components.data.labels import labels_view
from app.components.data.verdict_view import choose_conditions, verdict_view
from app.components.shared import frame, stores, tables, uploads, words
from app.components.shared.actions import carry_out, delete_button, rename_form
from app.components.shared.bin_view import bin_expander
from app.components.shared.job_panel import job_panel
from app.components.shared.run_choice import choose
from bandgap.jobs.deletions import bin_dataset
from bandgap.jobs.disk import QUOTA_VARIABLE, quota_bytes, workspace_usage
from bandgap.jobs.housekeeping import rename_dataset
from bandgap.jobs.next_step import FEWEST_LABELLED
from bandgap.jobs.rows import Dataset

CHECKS = ("check", "import_demo", "import_folder", "label_calculations")
LABELLING = ("import_demo", "label_calculations")  # these also store the known gaps


def page() -> None:
    sections()
    bin_expander()


def sections() -> None:
    """Draw all of the page but the bin."""
    datasets = stores.library().datasets(session.workspace())
    left_column, right_column = st.columns([2, 3], gap="medium")
    with left_column:
        frame.heading("Data", "Structures and their known band gaps.")
    is_reading = calculations_view()
    if not datasets:
        if not is_reading:
            first_visit()
            calculations_expander("Or read finished calculations")
        return
    choosers = st.container(horizontal=True, vertical_alignment="center")
    with choosers:
        dataset = choose_dataset({dataset.id: dataset for dataset in datasets})
    counts = stores.library().counts(dataset.id)
    job = stores.latest(dataset.id)
    if job is not None and job.kind in CHECKS and job.state != "finished":
        job_panel(job)
        required = "labelled" if job.kind in LABELLING else "all"
        if not job.active and not counts[required] and st.button("Check the files again"):
            carry_out(lambda: uploads.check_again(job))
    if counts["all"]:
        with left_column:
            state(dataset, counts, primary=not is_reading)
        with right_column:
            elements = choose_elements(dataset, stamp=f"{job.id if job else ''}-{dataset.labels}")
        with choosers:
            conditions = choose_conditions(dataset, counts, elements)
        verdict_view(dataset, conditions)
        labels_view(dataset)
        domain_view(dataset)
    with st.expander("Add another data set"):
        upload_form()
        if not any(d.origin == "demo" for d in datasets):
            demo_button()
        if not any(d.origin == "demo-inorganic" for d in datasets) and second_demo():
            carry_out(lambda: uploads.add_demo("demo-inorganic"))
    if not is_reading:
        calculations_expander("Read calculations")
    manage_expander(dataset, datasets)


def choose_dataset(by_id: dict[str, Dataset]) -> Dataset:
    before = session.selected_id("data")
    names = stores.dataset_labels(list(by_id.values()))
    picked = choose("data", "Data set", names, key="data-select", width=240, is_labelled=False)
    session.choose("data", picked)
    if before in by_id and picked != before:
        st.rerun()
    return by_id[picked]


def state(dataset: Dataset, counts: dict[str, int], *, primary: bool) -> None:
    """Draw what the data set has, and the button that trains on it."""
    advice = "" if counts["labelled"] else " Give them gaps under Known gaps."
    st.markdown(words.counts(counts) + advice)
    if counts["usable"] >= FEWEST_LABELLED and st.button(
        "Train on these",
        type="primary" if primary else "secondary",
        icon=":material/model_training:",
        key=f"train-on-{dataset.id}",
    ):
        session.set_trains_on(dataset.id)
        st.switch_page("views/train.py")


def manage_expander(dataset: Dataset, datasets: list[Dataset]) -> None:
    """Draw the forms that rename and delete a data set, and the disk use of all data sets.

    Nothing is read while the expander is closed.
    """
    with st.expander(
        "Rename, delete, disk use", on_change="rerun", key=f"care-{dataset.id}"
    ) as expander:
        if not expander.open:
            return
        library = stores.library()
        workspace = session.workspace()
        rename = partial(rename_dataset, library, workspace, dataset.id)
        rename_form(dataset.id, dataset.name, rename, noun="data set", max_chars=120)
        delete_button(
            "data set",
            dataset.id,
            dataset.name,
            lambda: bin_dataset(library, workspace, dataset.id),
        )
        _space(datasets)


def _space(datasets: list[Dataset]) -> None:
    usage = workspace_usage(stores.library(), session.workspace())
    quota = quota_bytes()
    limit = f" of at most {words.size(quota)} ({QUOTA_VARIABLE})" if quota else ""
    st.write(f"This workspace takes **{words.size(usage.total)}**{limit}.")
    sizes = {dataset.name: usage.datasets[dataset.id] for dataset in datasets}
    sizes |= {
        "uploads for predictions, and calculations": usage.uploads - sum(usage.datasets.values()),
        "runs": usage.runs,
        "the bin": usage.bin,
    }
    table = pd.DataFrame(
        {"part": list(sizes), "disk space": [words.size(size) for size in sizes.values()]}
    )
    tables.show(table, alt="Disk space of every data set", rows=100)


frame.show(page)
