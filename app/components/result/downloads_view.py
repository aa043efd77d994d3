"""Downloads of the page Result: the held-out predictions."""

import streamlit as st

from app.components.result.run_result import RunResult
from app.components.shared import downloads
from app.components.shared.run_files import heldout_frame


def downloads_view(result: RunResult) -> None:
    """Draw the download buttons of a run."""
    with st.container(horizontal=True):
        downloads.csv_button(
            "Held-out predictions (CSV)",
            lambda: heldout_frame(result.heldout),
            "held_out.csv",
            key=f"heldout-{result.run.id}",
            help="Predictions, 95 % intervals and known gaps of the structures of the test.",
        )
