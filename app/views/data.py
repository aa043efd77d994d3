"""Data: upload structures, read verdicts, set known gaps, see distributions, rename, delete."""

from functools import partial

import pandas as pd
import streamlit as st

from app import session
from app.components.data.calculations_view import calculations_expander, calculations_view
from app.components.data.data_upload import demo_button, first_visit, second_demo, upload_form
from app.components.data.dataset_map import dataset_map
from app.components.data.distribution_view import distribution_view
from app.components.data.domain_view import domain_view
from app.components.data.element_choice import choose_elements
from app.components.data.labels import labels_view
from app.components.data.verdict_view import verdict_view
from app.components.shared import frame, stores, tables, uploads, words
from app.components.shared.actions import carry_out, delete_button, rename_form
from app.components.shared.bin_view import bin_expander
from app.components.shared.job_panel import job_panel
from app.components.shared.run_choice import choose
from bandgap.jobs.deletions import bin_dataset
from bandgap.jobs.disk import QUOTA_VARIABLE, quota_bytes, workspace_usage
from bandgap.jobs.housekeeping import rename_dataset
from bandgap.jobs.listing import Overview, overview
from bandgap.jobs.rows import Dataset

CHECKS = ("check", "import_demo", "import_folder", "label_calculations")
LABELLING = ("import_demo", "label_calculations")  # these also store the known gaps
VIEWS = ("Verdicts", "Known gaps", "Distributions", "Map", "Applicability")


def page() -> None:
    sections()
    bin_expander()


def sections() -> None:
    """Draw all of the page but the bin."""
    frame.heading("Data", "Crystal structures and the band gaps that are known for some of them.")
    datasets = stores.library().datasets(session.workspace())
    is_reading = calculations_view()
    if not datasets:
        if not is_reading:
            first_visit()
            calculations_expander("Or read finished calculations")
        return
    dataset = choose_dataset({dataset.id: dataset for dataset in datasets})
    counts = stores.library().counts(dataset.id)
    job = stores.latest(dataset.id)
    if job is not None and job.kind in CHECKS and job.state != "finished":
        job_panel(job)
        required = "labelled" if job.kind in LABELLING else "all"
        if not job.active and not counts[required] and st.button("Check the files again"):
            carry_out(lambda: uploads.check_again(job))
    if counts["all"]:
        report(
            dataset,
            counts,
            stamp=f"{job.id if job else ''}-{dataset.labels}-{stores.home().folder}",
            primary=not is_reading,
        )
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
    picked = choose("data", "Data set", names, key="data-select", width=420)
    session.choose("data", picked)
    if before in by_id and picked != before:
        st.rerun()
    return by_id[picked]


def report(dataset: Dataset, counts: dict[str, int], *, stamp: str, primary: bool) -> None:
    advice = "" if counts["labelled"] else " Give them gaps under Known gaps."
    st.markdown(words.counts(counts) + advice)
    if counts["usable"] >= stores.MIN_LABELLED and st.button(
        "Train on these",
        type="primary" if primary else "secondary",
        icon=":material/model_training:",
        key=f"train-on-{dataset.id}",
    ):
        session.set_trains_on(dataset.id)
        st.switch_page("views/train.py")
    view = st.segmented_control(
        "View",
        VIEWS,
        default=VIEWS[0],
        required=True,
        key="data-view",
        label_visibility="collapsed",
    )
    if view == "Known gaps":
        labels_view(dataset, _overview(dataset.id, stamp).numbers)
        return
    elements = choose_elements(dataset, stamp=stamp)
    match view:
        case "Distributions":
            distribution_view(_overview(dataset.id, stamp, elements))
        case "Map":
            dataset_map(dataset, elements)
        case "Applicability":
            domain_view(dataset, elements)
        case _:
            verdict_view(dataset, elements)


@st.cache_data(max_entries=8, show_spinner=False)
def _overview(dataset: str, stamp: str, elements: tuple[str, ...] = ()) -> Overview:
    """Return the overview of a data set; `stamp`, a key of the cache, changes with the data."""
    return overview(stores.library(), dataset, elements)


def manage_expander(dataset: Dataset, datasets: list[Dataset]) -> None:
    """Draw the forms that rename and delete a data set, and the disk use of all data sets.

    Nothing is read while the expander is closed.
    """
    with st.expander(
        "Rename, delete, disk use", on_change="rerun", key=f"care-{dataset.id}"
    ) as expander:
        if not expander.open:
            return
        left_column, right_column = st.columns(2, gap="large")
        with left_column:
            library = stores.library()
            workspace = session.workspace()
            rename = partial(rename_dataset, library, workspace, dataset.id)
            rename_form(dataset.id, dataset.name, rename, noun="data set", max_chars=120)
            st.write("Runs that learned from it stay, with their predictions.")
            delete_button(
                "data set",
                dataset.id,
                dataset.name,
                lambda: bin_dataset(library, workspace, dataset.id),
            )
        with right_column:
            _space(datasets)


def _space(datasets: list[Dataset]) -> None:
    usage = workspace_usage(stores.library(), session.workspace())
    quota = quota_bytes()
    limit = f" of at most {words.size(quota)}" if quota else ""
    shares = (("runs", usage.runs), ("the bin", usage.bin))
    parts = "".join(
        f", {words.size(n_bytes)} of it in {name}" for name, n_bytes in shares if n_bytes
    )
    st.write(f"This workspace takes **{words.size(usage.total)}**{limit}{parts}.")
    st.caption(
        f"Who runs this server sets the limit ({QUOTA_VARIABLE}); at the limit nothing more can be "
        "stored."
    )
    names = [dataset.name for dataset in datasets]
    sizes = [usage.datasets[dataset.id] for dataset in datasets]
    if for_predictions := usage.uploads - sum(sizes):
        names.append("uploads for predictions, and calculations")
        sizes.append(for_predictions)
    table = pd.DataFrame({"data set": names, "disk space": [words.size(size) for size in sizes]})
    tables.show(table, alt="Disk space of every data set", rows=100)


frame.show(page)
