"""Predict: upload new structures, get their gaps with intervals, take them home as CSV."""

import session
import streamlit as st
from components import frame, stores, uploads
from components.job_panel import job_panel
from components.prediction_view import prediction_view
from components.run_choice import choose_run
from components.run_files import read_calibrator, read_predictions, read_run

from bandgap.errors import BandgapError
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job


def page() -> None:
    frame.heading("Predict", "Band gaps of new structures, with intervals that say how sure the model is.")
    run = choose_run("Predicting needs a finished transfer.")
    if run is None:
        return
    jobs = stores.jobs().jobs(session.workspace(), kinds=["predict"])
    predictions = [job for job in jobs if job.payload["run"] == run.id]
    if not predictions:
        upload_form(run)
        return
    with st.expander("Predict other structures"):
        upload_form(run)
    result(run, predictions)


def upload_form(run: RunRow) -> None:
    with st.form(f"predict-{session.form_key('predict')}", border=False):
        files = st.file_uploader(
            "New structures",
            accept_multiple_files=True,
            help=f"Accepted: {uploads.ACCEPTED}. At most 20 MB a file.",
        )
        if not st.form_submit_button("Predict", type="primary"):
            return
        if not files:
            st.error(f"No file was chosen. Accepted: {uploads.ACCEPTED}.")
            return
        try:
            dataset = uploads.store_files(files, form="predict", purpose="prediction")
            job = stores.jobs().submit(
                session.workspace(),
                "predict",
                title=f"Predicting {dataset.name}",
                payload={"run": run.id, "dataset": dataset.id, "name": dataset.name},
                subject=dataset.id,
                submit_key=f"predict-{run.id}-{dataset.id}",
            )
        except BandgapError as error:
            frame.problem(error)
            return
    session.choose("prediction", job.id)
    session.renew("predict")
    st.rerun()


def result(run: RunRow, predictions: list[Job]) -> None:
    by_id = {job.id: job for job in predictions}
    ids = list(by_id)
    present = session.chosen("prediction")
    index = ids.index(present) if present in by_id else 0
    picked = ids[index]
    if len(ids) > 1:
        picked = st.selectbox(
            "Predicted structures",
            ids,
            index=index,
            format_func=lambda i: by_id[i].payload["name"],
            key=f"prediction-select-{ids[index]}-{len(ids)}",
            width=520,
        )
    session.choose("prediction", picked)
    job = by_id[picked]
    if job.state != "finished":
        job_panel(job, noun="prediction")
        return
    predictions = read_predictions(run.id, job.id)
    if calibrator := read_calibrator(run.id):
        st.caption(calibrator.sentence)
    for text in read_run(run.id).warnings:
        st.warning(text, icon=":material/warning:")
    prediction_view(predictions, run=run, name=job.payload["name"])


frame.show(page)
