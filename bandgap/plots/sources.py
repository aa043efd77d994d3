"""Figures of source models."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import BASELINE, GOOD, MODEL, add_points, finished


def learning_curve(history: Sequence[Sequence[float]], *, sd_eV: float) -> go.Figure:
    """Return the RMSE (eV) on training and held-out rows after every epoch.

    `history` contains the mean squared errors of both in squared standardised units, (epoch, 2).
    `sd_eV` is the standard deviation of the gaps. The best epoch, whose weights are used, is
    marked.
    """
    errors = sd_eV * np.sqrt(np.asarray(history, dtype=np.float64).reshape(-1, 2))
    epochs = np.arange(1, len(errors) + 1)
    fig = go.Figure()
    for k, (name, colour, dash) in enumerate(
        (("learned from", BASELINE, "dot"), ("held out", MODEL, "solid"))
    ):
        line = {"color": colour, "dash": dash}
        hover = f"epoch %{{x}}, {name}: %{{y:.3f}} eV<extra></extra>"
        fig.add_scatter(
            x=epochs, y=errors[:, k], mode="lines", name=name, line=line, hovertemplate=hover
        )
    if len(errors):
        best = int(errors[:, 1].argmin())
        name = f"kept (epoch {epochs[best]})"
        hover = "kept: %{y:.3f} eV<extra></extra>"
        add_points(
            fig,
            [epochs[best]],
            [errors[best, 1]],
            GOOD,
            "diamond",
            10,
            name=name,
            hovertemplate=hover,
        )
    legend = {
        "x": 0.99,
        "y": 0.99,
        "xanchor": "right",
        "yanchor": "top",
        "bgcolor": "rgba(0,0,0,0)",
    }
    y = {"title": Quantity.RMSE.axis, "rangemode": "tozero"}
    return finished(fig, height=320, x={"title": "epoch"}, y=y, legend=legend)
