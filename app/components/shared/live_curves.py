"""The curves of a running job: R-hat, effective draws, acceptance or loss against what is done."""

from collections.abc import Sequence

import numpy as np
import streamlit as st

from app.components.shared import frame, stores, words
from bandgap import plots
from bandgap.foundation.progress import RATE
from bandgap.jobs.store import Event, Job
from bandgap.plots.progress import progress_figure

KINDS = ("transfer", "train_source")  # jobs that report values while they compute
MAX_EVENTS = 600  # the last five minutes of reports
_CONFIG = {"displayModeBar": False, "responsive": True}


def live_curves(job: Job) -> None:
    """Draw an expander with the curves of a running job; nothing is read while it is closed."""
    if job.kind not in KINDS:
        return
    with st.expander("Live curves", on_change="rerun", key=f"live-{job.id}") as expander:
        if not expander.open:
            return
        curves = curves_of(stores.jobs().events(job.id, last=MAX_EVENTS))
        if not curves:
            st.caption("No values yet. They come once sampling or training has begun.")
            return
        fig = progress_figure(curves)
        if frame.dark():
            fig.update_layout(template=plots.template(dark=True))
        st.plotly_chart(
            fig,
            key=f"live-figure-{job.id}",
            theme=None,
            width="stretch",
            config=_CONFIG,
            alt=f"Progress of {', '.join(curves)}",
        )


def curves_of(events: Sequence[Event]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what was done and the value of every report by the label of the value.

    Only reports since the present phase began to count are used, as each phase counts from zero.
    """
    reports = [event.update for event in events if event.kind == "progress" and event.update.values]
    present: list[dict[str, float]] = []
    last_done = 0.0
    for update in reports:
        if update.done < last_done:
            present = []
        last_done = update.done
        present.append({"done": float(update.done), **update.values})
    names = dict.fromkeys(name for report in present for name in report)
    curves = {}
    for name in names:
        if name in ("done", RATE):
            continue
        points = [(report["done"], report[name]) for report in present if name in report]
        done, values = np.array(points, dtype=float).T
        is_finite = np.isfinite(values)
        if is_finite.any():
            curves[words.figure_label(name)] = (done[is_finite], values[is_finite])
    return curves
