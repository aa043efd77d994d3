"""Why a prediction is what it is: labels with picture, gap and weight, its width, and elements."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.actions import carry_out
from app.components.shared.guide_links import help_link
from app.components.shared.job_panel import unfinished
from app.components.structures.pictures import pictures_of_ids
from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.explanations import (
    explanation_job,
    explanation_path,
    no_labels_text,
    start_explanation,
)
from bandgap.jobs.rows import RunRow
from bandgap.predictions.explanations import (
    Explanation,
    Explanations,
    load_explanations,
    width_sentence,
)

_CAPTIONS = {
    "kernel": "Weight: how much the prediction rises per eV of this label. The change is the "
    "prediction minus the one without this label, at the same scales of the kernel.",
    "draws": "Weight: how much the prediction rises per eV of this label. The change is an "
    "estimate of the prediction minus the one without this label; see the notes.",
    "few draws": "The run has too few draws for weights of labels: these are the labelled "
    "structures that are most alike.",
    "": "This method has no weights of labels: these are the labelled structures that are most "
    "alike.",
}


def why_view(run: RunRow, *, prediction: str, n: int, row: int) -> None:
    """Draw the explanation of a row of a prediction of n structures, or its button."""
    opened_key = f"why-opened-{prediction}"
    job = explanation_job(stores.jobs(), run, prediction=prediction, n=n, row=row)
    is_active = job is not None and job.active
    st.session_state[opened_key] = is_active or st.session_state.get(opened_key, False)
    with st.expander("Why this number", expanded=st.session_state[opened_key]):
        if unfinished(job):
            return
        path = explanation_path(stores.home(), run.id, prediction, n=n, row=row)
        try:
            explanations = load_explanations(path)
        except ArtifactError as error:
            frame.problem(error)
            explanations = None
        explained = None if explanations is None else explanations.of_row(row)
        if explanations is not None and explained is not None:
            explanation_view(explanations, explained, dataset=run.dataset)
        elif problem := no_labels_text(stores.jobs(), stores.library(), run):
            st.caption(problem)
        elif st.button(
            "Compare it with the labels",
            icon=":material/help_center:",
            key=f"explain-{prediction}",
            help="Which labelled structures carry this prediction, what makes its interval wide, "
            "and which elements matter. Seconds in the background."
            + help_link("explanation/reading-a-result", "Why this number"),
        ):
            start = partial(start_explanation, stores.jobs(), stores.library(), run)
            carry_out(lambda: start(prediction=prediction, n=n, row=row))


def explanation_view(explanations: Explanations, explained: Explanation, *, dataset: str) -> None:
    """Draw the width, the labels and the features of an explanation."""
    sentence = width_sentence(explained, typical_sd_eV=explanations.typical_sd_eV)
    st.markdown(f"**What makes the interval wide?** {sentence}")
    table = label_frame(explained)
    pictures = pictures_of_ids(dataset, table["id"].tolist())
    tables.show(
        tables.with_pictures(table, pictures),
        alt="Labelled structures behind this prediction",
        columns=COLUMNS,
        rows=len(table),
    )
    downloads.csv_button("Download these structures (CSV)", lambda: table, "behind.csv")
    share = explanations.share
    is_part = 0 < share < 0.995
    included = (
        f" Methods with {words.percent(share)} of the weight are included." if is_part else ""
    )
    st.caption(
        f"{_CAPTIONS[explanations.way]}{included}",
        help="Both are explained in the notes."
        + help_link("explanation/reading-a-result", "Why this number"),
    )
    if explained.features:
        parts = [f"{name}\u00a0{change:+.2f}\u00a0eV" for name, change in explained.features]
        st.markdown(
            f"**What matters?** {words.escaped(', '.join(parts))}",
            help="Change of the prediction when all features with this element keep the mean value "
            "of the labelled structures instead of their own. The changes do not add up, as a "
            "distance between two elements counts for both."
            + help_link("explanation/reading-a-result", "Why this number"),
        )


def label_frame(explained: Explanation) -> pd.DataFrame:
    """Return the labels of an explanation; columns without any number are left out."""
    table = pd.DataFrame(
        {
            "id": [label.id for label in explained.labels],
            "gap_eV": [label.gap_eV for label in explained.labels],
            "weight": [label.weight for label in explained.labels],
            "change_eV": [label.change_eV for label in explained.labels],
            "distance": [label.distance for label in explained.labels],
        }
    )
    return table.dropna(axis="columns", how="all")


COLUMNS: dict[str, Any] = tables.columns(["id"]) | {
    "gap_eV": tables.column("known (eV)", 70, "%.2f"),
    "weight": tables.column("weight", 60, "%.2f"),
    "change_eV": tables.column("change (eV)", 80, "%+.3f"),
    "distance": tables.column("distance", 70, "%.3f"),
}
