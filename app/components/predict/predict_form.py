"""The form that asks for predictions: new files, or a data set of the workspace; one submit makes one job."""

from functools import partial
from typing import Any

import session
import streamlit as st

from bandgap.foundation.errors import BandgapError
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.store import Job
from components.shared import frame, stores, uploads

UPLOAD, DATASET = "New files", "A data set of this workspace"


def predict_form(run: RunRow) -> None:
    """Draw the form; sending it stores the files, queues the job and chooses its prediction."""
    datasets = stores.library().datasets(session.workspace())
    origin = UPLOAD
    if datasets:
        origin = st.radio("Structures", [UPLOAD, DATASET], horizontal=True, key=f"predict-origin-{run.id}")
    with st.form(f"predict-{session.form_key('predict')}", border=False):
        asked = _chosen(datasets) if origin == DATASET else None
        files = [] if origin == DATASET else _files()
        if not st.form_submit_button("Predict", type="primary"):
            return
        if asked is None and not files:
            st.error(f"No file was chosen. Accepted: {uploads.ACCEPTED}.")
            return
        ask = partial(_submit, run)
        try:
            job = ask(asked or uploads.store_files(files, form="predict", purpose="prediction", then=ask))
        except BandgapError as error:
            frame.problem(error)
            return
    session.choose("prediction", job.id)
    session.renew("predict")
    st.rerun()


def _submit(run: RunRow, dataset: Dataset) -> Job:
    """Ask the worker for the predictions of a data set; the same life of the form gives the same job."""
    key = f"predict-{run.id}-{dataset.id}-{session.form_key('predict')}"
    asked = {"run": run.id, "dataset": dataset.id, "name": dataset.name}
    return stores.ask("predict", f"Predicting {dataset.name}", subject=dataset.id, key=key, **asked)


def _files() -> list[Any]:
    return st.file_uploader(
        "New structures", accept_multiple_files=True, help=f"Accepted: {uploads.ACCEPTED}. At most 20 MB a file."
    )


def _chosen(datasets: list[Dataset]) -> Dataset | None:
    by_id = {dataset.id: dataset for dataset in datasets}
    return by_id[
        st.selectbox("Data set", list(by_id), format_func=lambda i: by_id[i].name, help=_DATASET_HELP, width=520)
    ]


_DATASET_HELP = "All its structures are predicted; those without a known gap can be ranked for what to compute next."
