"""The button that predicts the new crystals of the demo, which are shipped with the package."""

import uuid
from functools import partial

import streamlit as st

from app import session
from app.components.shared import frame, stores, words
from bandgap.datasets.demo_files import unlabelled_cifs
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.predicting import start_prediction
from bandgap.jobs.rows import RunRow

NAME = "new demo crystals"


def demo_crystals_button(run: RunRow) -> bool:
    """Draw the button for a run on the demo crystals that has not predicted the new ones.

    Returns whether it is drawn. A click stores the files, submits the prediction and selects it.
    """
    datasets = stores.library().datasets(session.workspace())
    if not any(d.id == run.dataset and d.origin == "demo" for d in datasets):
        return False
    dataset_id = str(uuid.uuid5(uuid.UUID(session.workspace()), f"{NAME} {run.id}"))
    jobs = stores.jobs_of("predict").values()
    if any((job.payload["run"], job.payload["dataset"]) == (run.id, dataset_id) for job in jobs):
        return False
    paths = unlabelled_cifs()
    if st.button(
        f"Predict the demo's {words.count(len(paths), 'new crystal')}",
        type="primary",
        icon=":material/batch_prediction:",
        key=f"demo-crystals-{run.id}",
    ):
        try:
            dataset = stores.library().add_dataset(
                session.workspace(),
                NAME,
                purpose="prediction",
                files=[(path.name, path.read_bytes()) for path in paths],
                dataset_id=dataset_id,
                then=partial(start_prediction, stores.jobs(), run, key="demo"),
            )
            job = start_prediction(stores.jobs(), run, dataset, key="demo")
        except BandgapError as error:
            frame.problem(error)
            return True
        session.choose("prediction", job.id)
        st.rerun()
    st.caption(
        "CIF files without gaps that come with the package. Four of them have faults on purpose, "
        "to show what is refused and what gets a warning."
    )
    return True
