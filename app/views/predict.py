"""Predict: gaps of new structures or of a data set, downloads, and what to compute next."""

import uuid
from functools import partial

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import session
from app.components.predict.prediction_view import StoredPrediction, prediction_view
from app.components.shared import frame, stores, uploads, words
from app.components.shared.actions import carry_out
from app.components.shared.advice import advice
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
from bandgap.datasets.demo_files import unlabelled_cifs
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
DEMO = "new demo crystals"


def page() -> None:
    frame.heading(
        "Predict", "Band gaps of new structures, with intervals that say how sure the model is."
    )
    run_place, prediction_place = st.columns([3, 2], gap="medium")
    with run_place:
        run = choose_run(refits_first=True, shipped=stores.shipped_run())
    assert run is not None  # the shipped model
    jobs = [job for job in stores.jobs_of("predict").values() if job.payload["run"] == run.id]
    predictions = active_first(resuming.without_resumed(jobs), lambda job: job)
    if predictions:
        with prediction_place:
            by_id = {job.id: job for job in predictions}
            names = {i: job.payload["name"] for i, job in by_id.items()}
            job = by_id[
                choose("prediction", "Predicted structures", names, key="prediction-select")
            ]
            session.choose("prediction", job.id)
    if not predictions:
        predict_form(run, is_first=True)
        return
    with st.expander("Predict other structures"):
        predict_form(run, is_first=False)
    result(run, job)


def result(run: RunRow, job: Job) -> None:
    """Draw a prediction, or how far its job is."""
    if job.state != "finished":
        job_panel(job)
        if job.state in resuming.STOPPED:
            stopped(job)
        return
    files = read_run(run.id)
    calibrator = read_calibrator(run.id)
    notes = [*about_sentences(files.manifest), *([calibrator.sentence] if calibrator else [])]
    if notes:
        st.caption(words.escaped(" ".join(notes)))
    subject = () if run == stores.shipped_run() else (run.dataset, run)
    advice("predict", *subject, kind="secondary")
    learned: frozenset[str] = frozenset()
    if job.payload["dataset"] == run.dataset:
        learned = frozenset(files.manifest.get("split", {}).get("train", ()))
    prediction_view(
        StoredPrediction(
            read_predictions(run.id, job.id),
            read_details(run.id, job.id),
            run,
            id=job.id,
            name=job.payload["name"],
            dataset=job.payload["dataset"],
            extxyz=extxyz_of(run.id, job.id),
            learned=learned,
        )
    )


def stopped(job: Job) -> None:
    """Offer to resume after the last finished chunk, or to restart if none was finished."""
    label = "Start it again"
    if n_predicted := resuming.n_predicted_rows(stores.home(), job.payload):
        st.caption(f"Stored: {words.count(n_predicted, 'structure')} predicted already.")
        label = "Resume this prediction"
    if st.button(label, key=f"again-{job.id}"):
        carry_out(partial(resume, job))


def resume(job: Job) -> None:
    """Submit the job that resumes a prediction, and select it."""
    session.choose("prediction", resuming.resume_prediction(stores.jobs(), job).id)


def predict_form(run: RunRow, *, is_first: bool) -> None:
    """Draw the form; its button stores the files, submits the job and selects the prediction.

    The first prediction of a run on the demo crystals is that of new ones, which are shipped.
    """
    datasets = stores.datasets()
    names = {UPLOAD: UPLOAD} | stores.dataset_labels(datasets.values())
    label = "Predict"
    if is_first and run.dataset in datasets and datasets[run.dataset].origin == "demo":
        names = {DEMO: f"{DEMO}, four of them with faults on purpose"} | names
    origin = UPLOAD
    if datasets:
        origin = st.selectbox(
            "Structures", list(names), format_func=names.__getitem__, key=f"predict-{run.id}"
        )
    if origin == DEMO:
        label = f"Predict the demo's {words.count(len(unlabelled_cifs()), 'new crystal')}"
    # no form: a choice of files shows their number
    files: list[UploadedFile] = []
    if origin == UPLOAD:
        accepted = f"{uploads.ACCEPTED}. {uploads.LIMITS}"
        link = help_link("reference/file-formats", "Structure files")
        files = uploads.choose_files(
            "New structures", accepted, form="predict", link=link, several=True
        )
        st.caption("CIF, POSCAR, extXYZ and other files of structures, or a zip of them.")
    table = features = None
    if baseline := words.escaped(run.request.baseline):
        table = uploads.choose_table(
            f"Table of {baseline} (CSV)",
            f"a column id or file, and a column {baseline}, which this run corrects. Without a "
            "table it is taken from the structures' own numbers",
            form="predict",
            link=help_link(
                "how-to/theory-levels-and-baselines", "Learn the difference to a cheaper gap"
            ),
        )
    if learned_table := words.escaped(run.request.features.rpartition("/")[2]):
        features = uploads.choose_table(
            "Own features of these structures",
            f"a table with the columns of {learned_table}, which this run learned from",
            form="predict",
            link=help_link("how-to/own-features", "Own features"),
            types=(*uploads.TABLE_TYPES, "parquet", "npz"),
        )
    if not st.button(label, type="primary" if is_first else "secondary"):
        return
    if learned_table and features is None:
        st.error("This run needs the table of its own features for these structures.")
        return
    try:
        job = _submit(run, origin, files, table=table, features=features)
    except BandgapError as error:
        frame.problem(error)
        return
    if job is not None:
        session.choose("prediction", job.id)
        uploads.release(table, features)
        session.renew("predict")
        st.rerun()


def _submit(
    run: RunRow,
    origin: str,
    files: list[UploadedFile],
    *,
    table: UploadedFile | None,
    features: UploadedFile | None,
) -> Job | None:
    """Store the structures and submit their prediction; return None where no file was chosen.

    `table` has the baselines of the structures, `features` their own features.
    """
    baselines = None
    if table is not None:
        column = run.request.baseline
        baselines = uploaded_payload(table.getvalue(), column=column, name=table.name)["table"]
    submit = partial(
        start_prediction,
        stores.jobs(),
        run,
        key="demo" if origin == DEMO else session.form_key("predict"),
        baselines=baselines,
        features="" if features is None else stores.stored_table(features),
    )
    store_shipped_run(stores.jobs(), stores.library(), run)
    dataset = stores.datasets().get(origin)
    if origin == DEMO:
        dataset = stores.library().add_dataset(
            run.workspace,
            DEMO,
            purpose="prediction",
            files=[(path.name, path.read_bytes()) for path in unlabelled_cifs()],
            dataset_id=str(uuid.uuid5(uuid.UUID(run.id), DEMO)),
            then=submit,
        )
    dataset = dataset or uploads.stored_files(
        files, uploads.ACCEPTED, form="predict", purpose="prediction", then=submit
    )
    return None if dataset is None else submit(dataset)


page()
