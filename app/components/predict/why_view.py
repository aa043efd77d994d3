"""Why a prediction is what it is: labels with picture, gap and weight, its width, and elements."""

from functools import partial

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

_ALIKE = "These are the labelled structures that are most alike."
_WEIGHTS = (
    "Weight: how much the prediction rises per eV of this label. Change: the prediction minus the "
    "one without this label"
)
_CAPTIONS = {
    "kernel": f"{_WEIGHTS}.",
    "draws": f"{_WEIGHTS}, estimated.",
    "few draws": f"The run has too few draws for weights of labels. {_ALIKE}",
    "": f"This method has no weights of labels. {_ALIKE}",
}


def why_view(run: RunRow, *, prediction: str, n: int, row: int) -> None:
    """Draw the explanation of a row of a prediction of n structures, or its button."""
    with st.expander("Why this number", on_change="rerun", key=f"why-{prediction}") as expander:
        if not expander.open:
            return
        if unfinished(explanation_job(stores.jobs(), run, prediction=prediction, n=n, row=row)):
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
            "Explain this number",
            key=f"explain-{prediction}",
            help="Which labels carry this prediction, and what makes its interval wide."
            + help_link("explanation/reading-a-result", "Why this number"),
        ):
            start = partial(start_explanation, stores.jobs(), stores.library(), run)
            carry_out(lambda: start(prediction=prediction, n=n, row=row))


def explanation_view(explanations: Explanations, explained: Explanation, *, dataset: str) -> None:
    """Draw the width, the labels and the features of an explanation."""
    sentence = width_sentence(explained, typical_sd_eV=explanations.typical_sd_eV)
    st.markdown(f"**What makes the interval wide?** {sentence}")
    table = pd.DataFrame([vars(label) for label in explained.labels])
    # columns without any number are left out
    table = table[["id", "gap_eV", "weight", "change_eV", "distance"]].dropna(axis=1, how="all")
    downloads.table_with_csv(
        table,
        "behind.csv",
        alt="Labelled structures behind this prediction",
        columns=COLUMNS,
        rows=len(table),
        pictures=pictures_of_ids(dataset, table["id"].tolist()),
    )
    share = explanations.share
    included = (
        f" Methods with {words.percent(share)} of the weight are included."
        if 0 < share < 0.995
        else ""
    )
    link = help_link("explanation/reading-a-result", "Why this number")
    st.caption(f"{_CAPTIONS[explanations.way]}{included}", help=link)
    if explained.features:
        parts = [f"{name}\u00a0{change:+.2f}\u00a0eV" for name, change in explained.features]
        st.markdown(f"**What matters?** {words.escaped(', '.join(parts))}", help=_MATTERS + link)


_MATTERS = (
    "Change of the prediction when all features with this element keep the mean value of the "
    "labelled structures instead of their own. The changes do not add up."
)
COLUMNS = tables.NAMES | {
    "gap_eV": tables.column("known (eV)", 70, "%.2f"),
    "weight": tables.column("weight", 60, "%.2f"),
    "change_eV": tables.column("change (eV)", 80, "%+.3f"),
    "distance": None,
}
