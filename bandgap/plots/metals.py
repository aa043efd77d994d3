"""Figure of the calibration of the probability of a metal."""

import pandas as pd
import plotly.graph_objects as go

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import BASELINE, MODEL, add_line, bars, faint, finished, marker


def p_metal_figure(table: pd.DataFrame) -> go.Figure:
    """Return the share of metals against the predicted probability, with the range of chance."""
    fig = go.Figure()
    add_line(fig, (0.0, 1.0), (0.0, 1.0), BASELINE, width=1, hoverinfo="skip", showlegend=False)
    probability = table["p_metal"]
    fig.add_scatter(
        x=probability,
        y=probability,
        mode="markers",
        marker={"opacity": 0},
        error_y=bars(
            probability,
            table["chance_lower"],
            table["chance_upper"],
            colour=faint(BASELINE, 0.6),
            thickness=5,
        ),
        hoverinfo="skip",
        showlegend=False,
    )
    fig.add_scatter(
        x=probability,
        y=table["share_of_metals"],
        mode="markers",
        marker=marker(MODEL, "circle", 9),
        customdata=table["structures"],
        hovertemplate="predicted %{x:.2f}<br>%{y:.0%} of %{customdata} are metals<extra></extra>",
        showlegend=False,
    )
    ends = {"range": [-0.03, 1.03]}
    return finished(
        fig,
        height=320,
        x={"title": Quantity.P_METAL.axis, **ends},
        y={"title": "share of metals", "tickformat": ".0%", **ends},
    )
