"""An example result: a table and a figure of the demo or of the newest finished run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.drawing import figure, parity_columns
from app.components.shared.run_choice import DELETED_DATA
from app.components.shared.run_files import read_run
from bandgap import plots
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.rows import RunRow

# Written by `bandgap demo`, then `python -m data.making result`.
DEMO = Path(__file__).with_name("demo_result.json")
# Rows of the table and of the figure: the first ones in the random order of the test set.
TABLE_ROWS = 9
FIGURE_ROWS = 60
COLUMNS = {
    "structure": tables.column("structure", 112),
    "mean_eV": tables.column("predicted (eV)", 86, "%.2f"),
    "interval": tables.column("interval (eV)", 92, alignment="right"),
    "gap_eV": tables.column("known (eV)", 76, "%.2f"),
}


def demo_result() -> None:
    """Show the result of the demo that is shipped with the package."""
    demo = read_demo_result()
    st.subheader("What comes out", anchor=False)
    accuracy = words.accuracy_sentence(demo["metrics"], n_test=demo["n_test"])
    st.markdown(f"In the demo the model learned from {demo['n']:,} crystals. {accuracy}", width=720)
    crystals = pd.DataFrame(demo["crystals"])
    _table_and_figure(crystals.assign(structure=crystals["formula"]))


@st.cache_resource(show_spinner=False)
def read_demo_result() -> Mapping[str, Any]:
    """Return the figures and the held-out crystals of the demo."""
    demo: dict[str, Any] = json.loads(DEMO.read_text(encoding="utf-8"))
    return demo


def last_result(run: RunRow) -> None:
    """Show the error, coverage and warnings of a finished run, with a button to its result."""
    st.subheader("Last result", anchor=False)
    name = words.escaped(stores.dataset_names(run.workspace).get(run.dataset, DELETED_DATA))
    title = words.escaped(run.title)
    try:
        files = read_run(run.id)
    except BandgapError as error:
        frame.problem(error, about=title)
        return
    accuracy = words.accuracy_sentence(files.metrics, n_test=files.n_test)
    st.markdown(f"**{title}**, learned from the data set **{name}**. {accuracy}", width=720)
    frame.warn(files.warnings)
    if st.button("See the result", icon=":material/task_alt:"):
        session.choose("run", run.id)
        st.switch_page("views/result.py")


def _table_and_figure(predictions: pd.DataFrame) -> None:
    """Draw the first predictions of the demo as a table and as a figure.

    The columns are id, structure, mean_eV, lower_eV, upper_eV and gap_eV.
    """
    left_column, right_column = st.columns(2, gap="large")
    listed = predictions.head(TABLE_ROWS)
    points = predictions.head(FIGURE_ROWS)
    with left_column:
        ends = zip(listed["lower_eV"], listed["upper_eV"], strict=True)
        tables.show(
            listed.assign(interval=[words.interval(*values) for values in ends])[list(COLUMNS)],
            alt="Some crystals of the demo with their predicted gaps, intervals and known gaps",
            columns=COLUMNS,
        )
        st.caption(f"{len(listed)} of them, drawn at random, with 95 % prediction intervals.")
        downloads.table_csv(lambda: predictions.drop(columns="structure"), "predictions.csv")
    with right_column:
        figure(
            plots.parity,
            *parity_columns(points),
            ids=points["id"].tolist(),
            key="result",
            alt="Predicted against known gaps of some crystals of the demo",
            caption=f"{len(points)} of them: points on the line are right, and about one in twenty "
            "should be a diamond, outside its interval.",
        )
