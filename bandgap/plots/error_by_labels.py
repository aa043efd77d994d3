"""The error of a method against the number of labels, with its power law and band."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.plots.style import MODEL, OBSERVED, add_line, add_points, faint, finished

_HEIGHT = 340


def error_by_labels_figure(table: pd.DataFrame, *, n: int) -> go.Figure:
    """Return measured errors (eV) against the number of labels, with the power law and its band.

    `table` is that of `LearningCurve.table`; `n` is the number of labels of the run, from which on
    the law is dotted.
    """
    fits, mean, law = (table[table["kind"] == kind] for kind in ("fit", "mean", "power law"))
    fig = go.Figure()
    fig.add_scatter(
        x=np.concatenate([law["n"], law["n"][::-1]]),
        y=np.concatenate([law["lower_eV"], law["upper_eV"][::-1]]),
        fill="toself",
        fillcolor=faint(MODEL, 0.18),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        name="95 % range of the law",
    )
    hover = "%{x:,} labels: %{y:.3f} eV<extra></extra>"
    for part, dash in ((law["n"] <= n, "solid"), (law["n"] >= n, "dot")):
        name = "power law" if dash == "solid" else "extrapolated"
        rows = law[part]
        add_line(
            fig, rows["n"], rows["rmse_eV"], MODEL, line_dash=dash, hovertemplate=hover, name=name
        )
    add_points(
        fig,
        fits["n"],
        fits["rmse_eV"],
        OBSERVED,
        "circle-open",
        6,
        hovertemplate=hover,
        name="one fit",
    )
    add_points(
        fig, mean["n"], mean["rmse_eV"], OBSERVED, "diamond", 9, hovertemplate=hover, name="mean"
    )
    x = {"title": "labels learned from", "rangemode": "tozero", "tickformat": ",d"}
    y = {"title": "RMSE (eV)", "rangemode": "tozero"}
    return finished(fig, height=_HEIGHT, x=x, y=y)
