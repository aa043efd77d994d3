"""Figures of a computation that is running: each reported value against what is done."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from bandgap.foundation.quantities import RHAT_LIMIT
from bandgap.plots.style import BASELINE, GOOD, MODEL, add_line, finished

HEIGHT = 190  # pixels
MAX_CURVES = 4


def progress_figure(curves: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> go.Figure:
    """Return one small plot for each value of a running computation, at most four.

    Parameters
    ----------
    curves
        What was done (k,) and the value (k,), by the label of the value. A value that is called
        R-hat gets the line of its limit.
    """
    names = list(curves)[:MAX_CURVES]
    fig = make_subplots(rows=1, cols=max(len(names), 1), subplot_titles=names)
    for column, name in enumerate(names, start=1):
        done, values = curves[name]
        place = {"row": 1, "col": column}
        if name == "R-hat":
            ends = [float(done.min()), float(done.max())]
            limit = [RHAT_LIMIT, RHAT_LIMIT]
            add_line(fig, ends, limit, GOOD, line_dash="dot", hoverinfo="skip", **place)
        is_short = done.size < 2
        add_line(fig, done, values, MODEL, hovertemplate="%{x:,}: %{y:.3g}<extra></extra>", **place)
        if is_short:
            fig.update_traces(mode="lines+markers", selector={"mode": "lines"}, **place)
    fig.update_layout(showlegend=False, margin={"t": 28, "b": 30, "l": 44, "r": 10})
    fig.update_annotations(font={"size": 12, "color": BASELINE})
    return finished(fig, height=HEIGHT, x={"tickformat": "~s", "nticks": 4}, y={"nticks": 4})
