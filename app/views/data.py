"""Data: upload structures, read verdicts, set known gaps, rename, delete."""

from functools import partial
from typing import Literal

import streamlit as st

from app import session
from app.components.data.calculations_view import calculations_expander, calculations_view
from app.components.data.data_upload import demo_buttons, first_visit, upload_form
from app.components.data.element_choice import choose_elements
from app.components.data.labels import labels_view
from app.components.data.verdict_view import choose_conditions, verdict_view
from app.components.shared import frame, stores, uploads, words
from app.components.shared.actions import carry_out, delete_button, edited_text
from app.components.shared.advice import advice
from app.components.shared.bin_view import bin_expander
from app.components.shared.job_panel import job_panel
from app.components.shared.run_choice import choose
from bandgap.jobs.deletions import bin_dataset
from bandgap.jobs.housekeeping import rename_dataset
from bandgap.jobs.next_step import ADD_GAPS, FEWEST_LABELLED, TRAIN
from bandgap.jobs.rows import Dataset

CHECKS = ("check", "import_demo", "import_folder", "label_calculations")
LABELLING = ("import_demo", "label_calculations")  # these also store the known gaps


def page() -> None:
    sections()
    bin_expander()


def sections() -> None:
    """Draw all of the page but the bin."""
    datasets = stores.datasets()
    left_column, right_column = st.columns([2, 3], gap="medium")
    with left_column:
        frame.heading("Data", "Structures and their known band gaps.")
    is_reading = calculations_view()
    if not datasets:
        if not is_reading:
            first_visit()
            calculations_expander("Or read finished calculations")
        return
    dataset = datasets.get(session.selected_id("data"), next(iter(datasets.values())))
    counts = stores.library().counts(dataset.id)
    if counts["all"]:  # drawn first, so that nothing below it moves
        with left_column:
            state(dataset, counts, is_reading=is_reading)
    choosers = frame.row()
    with choosers:
        names = stores.dataset_labels(datasets.values())
        picked = choose("data", "Data set", names, key="data-select", width=240, is_labelled=False)
        session.choose("data", picked)
        if picked != dataset.id:
            st.rerun()
    job = stores.latest(dataset.id)
    if job is not None and job.kind in CHECKS and job.state != "finished":
        job_panel(job)
        required = "labelled" if job.kind in LABELLING else "all"
        if not job.active and not counts[required] and st.button("Check the files again"):
            carry_out(lambda: uploads.check_again(job))
    if counts["all"]:
        with right_column:
            elements = choose_elements(dataset, stamp=f"{job.id if job else ''}-{dataset.labels}")
        with choosers:
            conditions = choose_conditions(dataset, counts, elements)
        verdict_view(dataset, conditions)
        labels_view(dataset)
    with st.expander("Add another data set"):
        upload_form()
        demo_buttons({other.origin for other in datasets.values()})
    if not is_reading:
        calculations_expander("Read calculations")
    manage_expander(dataset)


def state(dataset: Dataset, counts: dict[str, int], *, is_reading: bool) -> None:
    """Draw what the data set has, the next step, and where that is another one, its training."""
    level = words.escaped(dataset.level_of_theory) or "not stated, see Known gaps"
    st.markdown(
        words.counts(counts) + (f" Level of theory: {level}." if counts["labelled"] else "")
    )
    kind: Literal["primary", "secondary"] = "secondary" if is_reading else "primary"
    with frame.row():
        step = advice("data", dataset.id, kind=kind, is_narrow=True)
        if step == ADD_GAPS:
            st.caption(f"{step.reason} Give them under Known gaps.")
        elif (
            counts["usable"] >= FEWEST_LABELLED
            and step != TRAIN
            and st.button(TRAIN.label, key=f"next-{TRAIN.label}")
        ):
            session.set_trains_on(dataset.id)
            st.switch_page("views/train.py")


def manage_expander(dataset: Dataset) -> None:
    """Draw the forms that rename and delete a data set."""
    with st.expander("Rename, delete"):
        library = stores.library()
        workspace = session.workspace()
        rename = partial(rename_dataset, library, workspace, dataset.id)
        edited_text("Name", dataset.name, rename, key=f"name-{dataset.id}")
        delete_button(
            "data set",
            dataset.id,
            dataset.name,
            lambda: bin_dataset(library, workspace, dataset.id),
        )


page()
