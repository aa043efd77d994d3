"""The target window of the page Predict: its fields, and what the predictions say of it."""

import math

import numpy as np
import streamlit as st

from app import session
from app.components.shared import frame
from app.components.shared.guide_links import help_link
from bandgap.foundation.errors import ConfigError
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window


def choose_window() -> Window | None:
    """Draw the two fields of the target window and return it, None while one of them is empty.

    The address contains the window, so that it stays the same on every visit of the page.
    """
    ends = session.selected_id("window").partition(":")
    before = (_end(ends[0]), _end(ends[2]))
    with frame.row("bottom"):
        lower, upper = (
            st.number_input(
                label,
                min_value=0.0,
                value=value,
                step=0.1,
                format="%g",
                key=key,
                width=200,
                placeholder=example,
                help=_HELP + help_link("tutorials/on-the-pages", "What to compute next"),
            )
            for label, value, key, example in (
                ("Target window from (eV)", before[0], "window-from", "such as 1.3"),
                ("to (eV)", before[1], "window-to", "such as 1.7"),
            )
        )
    texts = ["" if end is None else f"{end:g}" for end in (lower, upper)]
    session.choose("window", ":".join(texts) if any(texts) else "")
    if lower is None or upper is None:
        return None
    try:
        return Window(lower, upper)
    except ConfigError as error:
        frame.problem(error)
        return None


def _end(text: str) -> float | None:
    """Return an end of a window in eV, None where the text of the address is none."""
    try:
        end = float(text)
    except ValueError:
        return None
    return end if 0.0 <= end < math.inf else None


def window_sentence(predictions: Predictions, window: Window) -> str:
    """Return how many structures are expected in a window."""
    chances = predictions.window_probability(window)
    n = int(np.isfinite(chances).sum())
    return f"In {window.label}: {np.nansum(chances):.1f} of {n:,} structures expected."


_HELP = (
    "Each structure then has the probability that its gap lies in the window, and the table "
    "starts with the most probable."
)
