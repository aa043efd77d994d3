"""The curves of a running job: R-hat, effective draws, acceptance or loss against what is done."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import stores, words
from app.components.shared.drawing import CONFIG, drawn
from bandgap.foundation.progress import RATE
from bandgap.jobs.store import Event, Job
from bandgap.plots.progress import progress_figure

KINDS = ("transfer", "train_source")  # jobs that report values while they compute
MAX_EVENTS = 600  # the last five minutes of reports


def live_curves(job: Job) -> None:
    """Draw an expander with the curves of a running job; nothing is read while it is closed."""
    if job.kind not in KINDS:
        return
    with st.expander("Live curves", on_change="rerun", key=f"live-{job.id}") as expander:
        if not expander.open:
            return
        curves = curves_of(stores.jobs().events(job.id, last=MAX_EVENTS))
        if not curves:  # no value is a finite number yet
            return
        st.plotly_chart(
            drawn(progress_figure, curves),
            key=f"live-figure-{job.id}",
            theme=None,
            width="stretch",
            config=CONFIG,
            alt=f"Progress of {', '.join(curves)}",
        )


def curves_of(events: Sequence[Event]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what was done and the value of every report by the label of the value.

    Only reports since the present phase began to count are used, as each phase counts from zero.
    """
    reports = [event.update for event in events if event.kind == "progress" and event.update.values]
    table = pd.DataFrame([update.values for update in reports], dtype=float)
    table.index = pd.Index([update.done for update in reports], dtype=float)
    table = table.iloc[np.append(0, np.diff(table.index) < 0).cumsum().argmax() :]
    curves = {}
    for name in table.columns.drop(RATE, errors="ignore"):
        column = table[name][np.isfinite(table[name])]
        if column.size:
            curves[words.figure_label(name)] = (column.index.to_numpy(), column.to_numpy())
    return curves
