"""The target window of the page Predict: its fields, and what the predictions say of it."""

import numpy as np
import streamlit as st

from app import session
from app.components.shared import frame, words
from app.components.shared.guide_links import help_link
from bandgap.foundation.errors import ConfigError
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window


def choose_window() -> Window | None:
    """Draw the two fields of the target window and return it, None while one of them is empty.

    The session remembers the window, so that it stays the same on every visit of the page.
    """
    lower_before, upper_before = session.target_window()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        lower = st.number_input(
            "Target window from (eV)",
            min_value=0.0,
            value=lower_before,
            step=0.1,
            format="%g",
            key="window-from",
            width=200,
            placeholder="such as 1.3",
            help=_HELP + help_link("tutorials/what-to-compute-next", "Aim at a window"),
        )
        upper = st.number_input(
            "to (eV)",
            min_value=0.0,
            value=upper_before,
            step=0.1,
            format="%g",
            key="window-to",
            width=140,
            placeholder="such as 1.7",
        )
    session.set_target_window(lower, upper)
    if lower is None or upper is None:
        return None
    try:
        return Window(lower, upper)
    except ConfigError as error:
        frame.problem(error)
        return None


def window_sentence(predictions: Predictions, window: Window) -> str:
    """Return how many structures are expected in a window, and the most probable one."""
    chances = predictions.window_probability(window)
    is_predicted = np.isfinite(chances)
    if not is_predicted.any():
        return ""
    best = int(np.nanargmax(chances))
    n = int(is_predicted.sum())
    return (
        f"In {window.label}: {chances[is_predicted].sum():.1f} of {n:,} structures expected; the "
        f"most probable is **{words.escaped(predictions.ids[best])}** "
        f"({words.percent(float(chances[best]))})."
    )


_HELP = (
    "Gaps that you look for. Each structure then has the probability that its gap lies between "
    "the two, from its whole predicted distribution, and the table starts with the most probable."
)
