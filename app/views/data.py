"""Data: upload structures, read the verdict on each, give them their known gaps, see what they are."""

import session
import streamlit as st
from components.data.data_upload import demo_button, first_visit, upload_form
from components.data.dataset_care import care_expander
from components.data.distribution_view import distribution_view
from components.data.domain_view import domain_view
from components.data.labels import labels_view
from components.data.verdict_view import verdict_view
from components.shared import frame, stores, uploads, words
from components.shared.actions import carry_out
from components.shared.job_panel import job_panel

from bandgap.jobs.listing import Overview, overview
from bandgap.jobs.rows import Dataset

CHECKS = ("check", "import_demo", "import_folder")
VIEWS = ("Verdicts", "Known gaps", "Distributions", "Applicability")


def page() -> None:
    frame.heading("Data", "Crystal structures and the band gaps that are known for some of them.")
    datasets = stores.library().datasets(session.workspace())
    if not datasets:
        first_visit()
        return
    dataset = choose_dataset({dataset.id: dataset for dataset in datasets})
    counts = stores.library().counts(dataset.id)
    job = stores.jobs().latest(session.workspace(), dataset.id)
    if job is not None and job.kind in CHECKS and job.state != "finished":
        job_panel(job, noun="check")
        if not job.active and not counts["all"] and st.button("Check the files again"):
            carry_out(lambda: uploads.check_again(job))
    if counts["all"]:
        report(dataset, counts, stamp=f"{job.id if job else ''}-{dataset.labels}-{stores.home().folder}")
    with st.expander("Add another data set"):
        upload_form()
        if not any(d.origin == "demo" for d in datasets):
            demo_button()
    care_expander(dataset, datasets)


def choose_dataset(by_id: dict[str, Dataset]) -> Dataset:
    ids = list(by_id)
    present = session.chosen("data")
    index = ids.index(present) if present in by_id else 0
    key = f"data-select-{ids[index]}-{len(ids)}"
    picked = st.selectbox("Data set", ids, index=index, format_func=lambda i: by_id[i].name, key=key, width=420)
    session.choose("data", picked)
    if picked != ids[index]:
        st.rerun()
    return by_id[picked]


def report(dataset: Dataset, counts: dict[str, int], *, stamp: str) -> None:
    known = "" if counts["labelled"] else " Give them gaps under Known gaps."
    st.markdown(words.counts(counts) + known)
    view = st.segmented_control(
        "View", VIEWS, default=VIEWS[0], required=True, key="data-view", label_visibility="collapsed"
    )
    match view:
        case "Known gaps":
            labels_view(dataset, _overview(dataset.id, stamp).numbers)
        case "Distributions":
            distribution_view(_overview(dataset.id, stamp))
        case "Applicability":
            domain_view(dataset)
        case _:
            verdict_view(dataset)


@st.cache_data(max_entries=8, show_spinner=False)
def _overview(dataset: str, stamp: str) -> Overview:
    """Return the overview of a data set; `stamp` changes with its check and its gaps."""
    return overview(stores.library(), dataset)


frame.show(page)
