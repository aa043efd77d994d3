"""Data: upload structures, read the verdict on each, give them their known gaps."""

import session
import streamlit as st
from components import frame, stores, tables, uploads, words
from components.job_panel import job_panel
from components.labels import label_expander

from bandgap import plots
from bandgap.csv_tables import csv_text
from bandgap.errors import BandgapError
from bandgap.jobs.rows import Dataset

FILTERS = {"all": None, "ready": "ready", "usable": "usable", "refused": "refused"}


def page() -> None:
    frame.heading("Data", "Crystal structures and the band gaps that are known for some of them.")
    datasets = stores.library().datasets(session.workspace())
    if not datasets:
        first_visit()
        return
    by_id = {dataset.id: dataset for dataset in datasets}
    dataset = choose_dataset(by_id)
    job = stores.jobs().latest(session.workspace(), dataset.id)
    if job is not None and job.kind in ("check", "import_demo") and job.state != "finished":
        job_panel(job, noun="check")
        if not stores.library().counts(dataset.id)["all"]:
            return
    report(dataset)
    with st.expander("Add another data set"):
        upload_form(primary=False)
        if not any(d.origin == "demo" for d in datasets):
            st.button("Use the demo data", on_click=uploads.add_demo)


def first_visit() -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Start with the demo data", anchor=False)
        st.write(
            "Molecular crystals with gaps from tight-binding calculations, and a source model that was trained on "
            "other molecules: enough to try the whole way in a few minutes."
        )
        st.button("Use the demo data", type="primary", on_click=uploads.add_demo)
    with right:
        st.subheader("Or bring your own", anchor=False)
        upload_form(primary=False)


def upload_form(*, primary: bool) -> None:
    with st.form(f"upload-{session.form_key('upload')}", border=False):
        files = st.file_uploader(
            "Structure files",
            accept_multiple_files=True,
            help=f"Accepted: {uploads.ACCEPTED}. At most 20 MB a file.",
        )
        name = st.text_input("Name of the data set", placeholder="named after the first file")
        if st.form_submit_button("Check the files", type="primary" if primary else "secondary"):
            if not files:
                st.error(f"No file was chosen. Accepted: {uploads.ACCEPTED}.")
                return
            try:
                dataset = uploads.store_files(files, form="upload", purpose="training", name=name)
            except BandgapError as error:
                frame.problem(error)
                return
            uploads.submit_check(dataset)
            session.choose("data", dataset.id)
            session.renew("upload")
            st.rerun()


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


def report(dataset: Dataset) -> None:
    verdicts = stores.library().verdicts(dataset.id)
    st.markdown(words.counts(stores.library().counts(dataset.id)))
    label_expander(dataset, verdicts)
    table = tables.verdict_frame(verdicts)
    left, right = st.columns([5, 2], gap="medium") if table["gap_eV"].notna().any() else (st.container(), None)
    with left:
        shown = FILTERS[st.segmented_control("Show", list(FILTERS), default="all", key="verdict-filter") or "all"]
        part = table if shown is None else table[table["status"] == shown]
        part = part if right else part.drop(columns="gap_eV")
        settings = tables.columns(list(part)) | VERDICT_COLUMNS
        st.dataframe(part, hide_index=True, placeholder="", height=tables.height(part), column_config=settings)
        st.download_button(
            "Download the verdicts (CSV)",
            data=lambda: csv_text(table).encode(),
            file_name="verdicts.csv",
            mime="text/csv",
            on_click="ignore",
        )
    if right is not None:
        with right:
            fig = plots.gap_histogram(table["gap_eV"])
            frame.figure(fig, key="gaps", alt="Histogram of the known band gaps", caption=GAPS_CAPTION)


VERDICT_COLUMNS = {
    "status": st.column_config.Column("verdict", help="ready, usable (with the warning beside it) or refused."),
    "problem": st.column_config.Column("reason and remedy", width="large"),
    "periodic": st.column_config.Column("kind"),
}
GAPS_CAPTION = "Known gaps. A second hump or a far tail often means two levels of theory or a wrong unit."

frame.show(page)
