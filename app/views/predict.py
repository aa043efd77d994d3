"""Predict: gaps of new structures or of a data set, downloads, and what to compute next."""

from functools import partial

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import session
from app.components.predict.demo_crystals import demo_crystals_button
from app.components.predict.prediction_view import StoredPrediction, prediction_view
from app.components.shared import frame, stores, uploads, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import job_panel
from app.components.shared.run_choice import choose, choose_run
from app.components.shared.run_files import (
    extxyz_of,
    read_calibrator,
    read_details,
    read_predictions,
    read_run,
)
from bandgap.datasets.shipped_models import about_sentences
from bandgap.foundation.errors import BandgapError
from bandgap.jobs import resuming
from bandgap.jobs.predicting import start_prediction
from bandgap.jobs.queueing import active_first
from bandgap.jobs.rows import RunRow
from bandgap.jobs.shipped_runs import store_shipped_run
from bandgap.jobs.store import Job
from bandgap.jobs.uploaded_gaps import uploaded_payload

UPLOAD = "New files"


def page() -> None:
    frame.heading(
        "Predict", "Band gaps of new structures, with intervals that say how sure the model is."
    )
    run_place, prediction_place = st.columns(2, gap="medium")
    with run_place:
        run = choose_run(
            "Predicting needs a finished transfer.",
            refits_first=True,
            shipped=stores.shipped_run(),
        )
    assert run is not None  # the shipped model
    jobs = [job for job in stores.jobs_of("predict").values() if job.payload["run"] == run.id]
    predictions = active_first(resuming.without_resumed(jobs), lambda job: job)
    if predictions:
        with prediction_place:
            job = choose_prediction(predictions)
    offers_demo = demo_crystals_button(run)
    if not predictions:
        predict_form(run, primary=not offers_demo)
        return
    with st.expander("Predict other structures"):
        predict_form(run, primary=False)
    result(run, job, primary=not offers_demo)


def choose_prediction(predictions: list[Job]) -> Job:
    """Draw the select box of the predictions of a run, and return the selected one."""
    by_id = {job.id: job for job in predictions}
    names = {i: job.payload["name"] for i, job in by_id.items()}
    picked = choose("prediction", "Predicted structures", names, key="prediction-select")
    session.choose("prediction", picked)
    return by_id[picked]


def result(run: RunRow, job: Job, *, primary: bool) -> None:
    """Draw a prediction, or how far its job is.

    `primary` is whether its button may be the primary one of the page.
    """
    if job.state != "finished":
        job_panel(job)
        if job.state in resuming.STOPPED:
            stopped(job, primary=primary)
        return
    files = read_run(run.id)
    calibrator = read_calibrator(run.id)
    notes = [*about_sentences(files.manifest), *([calibrator.sentence] if calibrator else [])]
    if notes:
        st.caption(words.escaped(" ".join(notes)), width=720)
    learned: frozenset[str] = frozenset()
    if job.payload["dataset"] == run.dataset:
        learned = frozenset(files.manifest.get("split", {}).get("train", ()))
    prediction_view(
        StoredPrediction(
            read_predictions(run.id, job.id),
            read_details(run.id, job.id),
            files.manifest,
            run,
            id=job.id,
            name=job.payload["name"],
            dataset=job.payload["dataset"],
            extxyz=extxyz_of(run.id, job.id),
            learned=learned,
        ),
        primary=primary,
    )


def stopped(job: Job, *, primary: bool) -> None:
    """Offer to resume after the last finished chunk, or to restart if none was finished."""
    label = "Start it again"
    if n_predicted := resuming.n_predicted_rows(stores.home(), job.payload):
        st.caption(f"Stored: {words.count(n_predicted, 'structure')} predicted already.")
        label = "Resume this prediction"
    if st.button(
        label,
        type="primary" if primary else "secondary",
        key=f"again-{job.id}",
        icon=":material/resume:",
    ):
        carry_out(partial(resume, job))


def resume(job: Job) -> None:
    """Submit the job that resumes a prediction, and select it."""
    session.choose("prediction", resuming.resume_prediction(stores.jobs(), job).id)


def predict_form(run: RunRow, *, primary: bool) -> None:
    """Draw the form; its button stores the files, submits the job and selects the prediction.

    `primary` is whether the button is the primary one of the page.
    """
    datasets = {d.id: d for d in stores.library().datasets(session.workspace())}
    names = {UPLOAD: UPLOAD} | stores.dataset_labels(list(datasets.values()))
    origin = UPLOAD
    if datasets:
        origin = st.selectbox(
            "Structures", list(names), format_func=names.__getitem__, key=f"predict-{run.id}"
        )
    with st.form(f"predict-{session.form_key('predict')}", border=False):
        files = _files() if origin == UPLOAD else []
        baseline = run.request.baseline
        table = _baseline_table(baseline) if baseline else None
        learned_table = run.request.features.rpartition("/")[2]
        features = _features_table(learned_table) if learned_table else None
        if not st.form_submit_button("Predict", type="primary" if primary else "secondary"):
            return
        if learned_table and features is None:
            st.error("This run needs the table of its own features for these structures.")
            return
        try:
            baselines = (
                None
                if table is None
                else uploaded_payload(table.getvalue(), column=baseline, name=table.name)["table"]
            )
            submit = partial(
                start_prediction,
                stores.jobs(),
                run,
                key=session.form_key("predict"),
                baselines=baselines,
                features="" if features is None else stores.stored_table(features),
            )
            store_shipped_run(stores.jobs(), stores.library(), run)
            dataset = datasets.get(origin) or uploads.stored_files(
                files, uploads.ACCEPTED, form="predict", purpose="prediction", then=submit
            )
            if dataset is None:
                return
            job = submit(dataset)
        except BandgapError as error:
            frame.problem(error)
            return
    session.choose("prediction", job.id)
    uploads.release(table, features)
    session.renew("predict")
    st.rerun()


def _files() -> list[UploadedFile]:
    files = uploads.choose_files(
        "New structures",
        f"{uploads.ACCEPTED}. {uploads.LIMITS}",
        form="predict",
        link=help_link("reference/file-formats", "Structure files"),
        several=True,
    )
    st.caption("CIF, POSCAR, extXYZ and other files of structures, or a zip of them.")
    return files


def _baseline_table(name: str) -> UploadedFile | None:
    name = words.escaped(name)
    return uploads.choose_table(
        f"Table of {name} (CSV)",
        f"a column id or file, and a column {name}, which this run corrects. Without a table it is "
        "taken from the structures' own numbers",
        form="predict",
        link=help_link(
            "how-to/theory-levels-and-baselines", "Learn the difference to a cheaper gap"
        ),
    )


def _features_table(learned_table: str) -> UploadedFile | None:
    return uploads.choose_table(
        "Own features of these structures",
        f"a table with the columns of {words.escaped(learned_table)}, which this run learned from",
        form="predict",
        link=help_link("how-to/own-features", "Own features"),
        types=(*uploads.TABLE_TYPES, "parquet", "npz"),
    )


frame.show(page)
