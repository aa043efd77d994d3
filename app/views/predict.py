"""Predict: gaps of new structures or of a data set with intervals, to take home, and what to compute next."""

import session
import streamlit as st
from components.predict.predict_form import predict_form
from components.predict.prediction_view import Shown, prediction_view
from components.shared import frame, stores
from components.shared.job_panel import job_panel
from components.shared.run_choice import choose_run
from components.shared.run_files import extxyz_of, read_calibrator, read_details, read_predictions, read_run

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
        predict_form(run)
        return
    with st.expander("Predict other structures"):
        predict_form(run)
    result(run, predictions)


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
    found = read_predictions(run.id, job.id)
    files = read_run(run.id)
    if calibrator := read_calibrator(run.id):
        st.caption(calibrator.sentence)
    frame.warn(files.warnings)
    own = job.payload["dataset"] == run.dataset
    prediction_view(
        Shown(
            found,
            read_details(run.id, job.id),
            files.manifest,
            run,
            job.id,
            job.payload["name"],
            job.payload["dataset"],
            extxyz_of(run.id, job.id),
            frozenset(files.manifest.get("split", {}).get("train", ())) if own else frozenset(),
        )
    )


frame.show(page)
