"""How unusual the structures of a data set are for runs that know the density of their own."""

import numpy as np
import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, stores, tables, words
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import run_labels
from app.components.shared.run_files import finished_runs, read_predictions, read_run
from app.components.structures.pictures import pictures_of_ids
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import Job
from bandgap.predictions.counting import counts_of, unusual_counts_sentence
from bandgap.predictions.preferred_measure import preference_sentence
from bandgap.predictions.table import DOMAIN_P, Predictions
from bandgap.predictions.unusual_rows import discovery_sentence

SHOWN = 200  # rows of the table, the most unusual first


def density_view(dataset: Dataset) -> None:
    """Draw the p-values of a data set by its newest prediction with a run that has a density.

    Nothing is drawn in a workspace without such a run.
    """
    runs = {run.id: run for run in finished_runs().values() if run.request.density != "none"}
    if not runs:
        return
    st.markdown(
        "**P-values of a run**",
        help=Quantity.DOMAIN_P.help
        + help_link("explanation/applicability", "P-value by normalizing flows"),
    )
    newest: dict[str, Job] = {}
    for job in stores.jobs_of("predict").values():
        run = job.payload["run"]
        if job.payload["dataset"] == dataset.id and job.state == "finished" and run in runs:
            newest.setdefault(run, job)
    if not newest:
        st.caption(
            "No run with a density has predicted this data set yet. Predict it, and its p-values "
            "appear here."
        )
        st.page_link("views/predict.py", label="Predict", icon=":material/arrow_forward:")
        return
    names = run_labels(
        {run: runs[run] for run in newest},
        stores.dataset_names(session.workspace()),
        stores.sources(),
    )
    selected = next(iter(names))
    if len(names) > 1:
        selected = st.selectbox(
            "Run", list(names), format_func=names.__getitem__, key=f"density-run-{dataset.id}"
        )
    else:
        st.caption(words.escaped(names[selected]))
    try:
        predictions = read_predictions(selected, newest[selected].id)
    except BandgapError as error:
        st.error(words.escaped_sentence(str(error)))
        return
    if predictions.domain_p is None:
        st.caption("This run learned from too few structures for a density.")
        return
    st.markdown(unusual_counts_sentence(counts_of(predictions)))
    st.caption(
        f"{discovery_sentence(predictions.domain_p[0])} "
        f"{preference_sentence(read_run(selected).manifest['density']['features'])}"
    )
    frame = unusual_frame(predictions)
    table = frame.head(SHOWN)
    downloads.table_with_csv(
        table,
        "unusual.csv",
        alt="Structures by their p-value, the most unusual first",
        columns=tables.columns(list(frame.columns)),
        pictures=pictures_of_ids(dataset.id, table["id"].tolist()),
    )
    if len(frame) > SHOWN:
        st.caption(
            f"The {SHOWN} most unusual of {len(frame):,}; the CSV of the page Predict has all."
        )


def unusual_frame(predictions: Predictions) -> pd.DataFrame:
    """Return names and p-values of the assessed structures, the most unusual first."""
    assert predictions.domain_p is not None
    p = predictions.domain_p[0]
    order = np.argsort(p, kind="stable")[: int(np.isfinite(p).sum())]
    names = {"id": predictions.ids, "formula": predictions.formulas}
    columns = {name: [texts[i] for i in order] for name, texts in names.items()}
    values = dict(zip(DOMAIN_P, predictions.domain_p[:, order], strict=True))
    return pd.DataFrame({**columns, **values})
