"""Figures of source models."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import BASELINE, GOOD, MODEL, TEMPLATE, marker


def learning_curve(history: Sequence[Sequence[float]], *, sd_eV: float) -> go.Figure:
    """Return the error (RMSE, eV) after every epoch, of the rows learned from and of those held out.

    `history` holds mean squared errors of both in squared standardised units, (epoch, 2); `sd_eV` is the standard
    deviation of the gaps. The best epoch, whose weights are kept, is marked.
    """
    errors = sd_eV * np.sqrt(np.asarray(history, dtype=np.float64).reshape(-1, 2))
    epochs = np.arange(1, len(errors) + 1)
    fig = go.Figure()
    for k, (name, colour, dash) in enumerate((("learned from", BASELINE, "dot"), ("held out", MODEL, "solid"))):
        fig.add_scatter(
            x=epochs,
            y=errors[:, k],
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash},
            hovertemplate=f"epoch %{{x}}, {name}: %{{y:.3f}} eV<extra></extra>",
        )
    if len(errors):
        best = int(errors[:, 1].argmin())
        fig.add_scatter(
            x=[epochs[best]],
            y=[errors[best, 1]],
            mode="markers",
            name=f"kept (epoch {epochs[best]})",
            marker=marker(GOOD, "diamond", 10),
            hovertemplate="kept: %{y:.3f} eV<extra></extra>",
        )
    fig.update_layout(
        template=TEMPLATE,
        height=320,
        showlegend=True,
        legend={"x": 0.99, "y": 0.99, "xanchor": "right", "yanchor": "top", "bgcolor": "rgba(0,0,0,0)"},
        xaxis_title="epoch",
        yaxis={"title": Quantity.RMSE.axis, "rangemode": "tozero"},
    )
    return fig
