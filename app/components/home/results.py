"""A result on Home: that of the demo, or the last one of the workspace."""

import json
from pathlib import Path

import pandas as pd
import streamlit as st

from app import session
from app.components.result.run_result import read_result
from app.components.result.verdict_view import verdict_view
from app.components.shared import frame, stores, words
from app.components.shared.drawing import figure, parity_columns
from app.components.shared.run_choice import DELETED_DATA
from bandgap import plots
from bandgap.foundation.errors import BandgapError
from bandgap.jobs.rows import RunRow

# Written by `bandgap demo`, then `python -m data.making result`.
DEMO = Path(__file__).with_name("demo_result.json")
POINTS = 60  # of the figure: the first ones in the random order of the test set


def demo_result() -> None:
    """Show the result of the demo that is shipped with the package."""
    demo = json.loads(DEMO.read_text(encoding="utf-8"))
    points = pd.DataFrame(demo["crystals"]).head(POINTS)
    st.subheader("What comes out", anchor=False)
    with st.container(width=720):
        figure(
            plots.parity,
            *parity_columns(points),
            ids=points["id"].tolist(),
            key="result",
            alt="Predicted against known gaps of some crystals of the demo",
            caption=f"The demo: a model that learned from {demo['n']} gaps predicts {len(points)} "
            "others. About one in twenty should be a diamond, outside its 95 % interval.",
        )


def last_result(run: RunRow) -> None:
    """Show the verdict on a finished run, with a button to its result."""
    st.subheader("Last result", anchor=False)
    title = words.escaped(run.title)
    name = words.escaped(stores.dataset_names(run.workspace).get(run.dataset, DELETED_DATA))
    try:
        result = read_result(run)
    except BandgapError as error:
        frame.problem(error, about=title)
        return
    st.markdown(f"{title}, on {name}")
    verdict_view(result)
    if st.button("See the result", type="tertiary", icon=":material/task_alt:"):
        session.choose("run", run.id)
        st.switch_page("views/result.py")
