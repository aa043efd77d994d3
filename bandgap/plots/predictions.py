"""Figures of known and predicted gaps."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.foundation.quantities import Quantity
from bandgap.plots.structures import binned
from bandgap.plots.style import (
    BASELINE,
    LEGEND_ABOVE,
    LEGEND_INSIDE,
    MIND,
    MODEL,
    OBSERVED,
    TEMPLATE,
    add_line,
    bars,
    faint,
    finished,
    marker,
    padded,
    plain,
)

_INTERVAL_HOVER = "%{text}<br>%{y:.2f} eV (%{customdata[0]:.2f} to %{customdata[1]:.2f})<extra></extra>"


def gap_histogram(gaps_eV: ArrayLike) -> go.Figure:
    """Return the distribution of known gaps (n,) in eV; NaN is left out."""
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    gaps = gaps[np.isfinite(gaps)]
    fig = binned(gaps, np.linspace(*gap_range(gaps), 31), colour=OBSERVED, unit="eV")
    fig.update_layout(xaxis_title=Quantity.GAP.axis, yaxis_title="structures")
    return fig


def gap_range(gaps_eV: ArrayLike) -> tuple[float, float]:
    """Return the ends of the gaps (n,) in eV, a little apart where they are all the same or there are none."""
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    low, high = (float(gaps.min()), float(gaps.max())) if gaps.size else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.05, high + 0.05)


def parity(
    observed_eV: ArrayLike,
    mean_eV: ArrayLike,
    lower_eV: ArrayLike,
    upper_eV: ArrayLike,
    *,
    ids: Sequence[str],
    ends: tuple[float, float] | None = None,
) -> go.Figure:
    """Return predicted against observed gaps (n,) in eV with intervals as thin bars, equal axes and the diagonal.

    `ends` are those of both axes, by default those of the data; figures that stand side by side share them.
    """
    observed, mean = np.asarray(observed_eV, dtype=np.float64), np.asarray(mean_eV, dtype=np.float64)
    lower, upper = np.asarray(lower_eV, dtype=np.float64), np.asarray(upper_eV, dtype=np.float64)
    inside = (observed >= lower) & (observed <= upper)
    ends = ends or padded(np.concatenate([observed, mean]))
    fig = go.Figure()
    add_line(fig, ends, ends, BASELINE, width=1, hoverinfo="skip", showlegend=False)
    for chosen, colour, symbol, name in (
        (inside, MODEL, "circle", "in its interval"),
        (~inside, MIND, "diamond-open", "outside its interval"),
    ):
        fig.add_scatter(
            x=observed[chosen],
            y=mean[chosen],
            mode="markers",
            name=f"{name} ({np.count_nonzero(chosen)})",
            marker=marker(colour, symbol, 6),
            error_y=bars(mean[chosen], lower[chosen], upper[chosen], colour=faint(colour, 0.4), thickness=0.8),
            customdata=plain(ids)[chosen],
            hovertemplate="%{customdata}<br>observed %{x:.2f} eV<br>predicted %{y:.2f} eV<extra></extra>",
        )
    both = {"range": list(ends), "constrain": "domain"}
    y = {"title": Quantity.MEAN.axis, "scaleanchor": "x", "scaleratio": 1, **both}
    return finished(fig, height=400, x={"title": f"observed {Quantity.GAP.axis}", **both}, y=y, legend=LEGEND_INSIDE)


def intervals(
    mean_eV: ArrayLike, lower_eV: ArrayLike, upper_eV: ArrayLike, *, ids: Sequence[str], unusual: ArrayLike
) -> go.Figure:
    """Return predictions (n,) in eV sorted by their mean, with intervals as bars; `unusual` rows get another marker.

    The legend stands above the figure, as the bars of few structures may reach anywhere in it.
    """
    mean = np.asarray(mean_eV, dtype=np.float64)
    order = np.argsort(mean)[np.isfinite(np.sort(mean))]
    lower, upper = np.asarray(lower_eV, dtype=np.float64), np.asarray(upper_eV, dtype=np.float64)
    strange = np.asarray(unusual, dtype=bool)
    rank = np.arange(1, order.size + 1)
    fig = go.Figure()
    for chosen, colour, symbol, name in (
        (~strange[order], MODEL, "circle", "in domain"),
        (strange[order], MIND, "diamond-open", "mind the warning"),
    ):
        rows = order[chosen]
        fig.add_scatter(
            x=rank[chosen],
            y=mean[rows],
            mode="markers",
            name=name,
            marker=marker(colour, symbol, 7),
            error_y=bars(mean[rows], lower[rows], upper[rows]),
            text=plain(ids)[rows].tolist(),
            customdata=np.stack([lower[rows], upper[rows]], axis=1),
            hovertemplate=_INTERVAL_HOVER,
        )
    fig.update_layout(template=TEMPLATE, height=340, showlegend=False)
    if strange.any():
        fig.update_layout(showlegend=True, **LEGEND_ABOVE)
    ticks = {"tick0": 1, "dtick": max(1, math.ceil(order.size / 8))}  # whole numbers, about eight of them
    fig.update_xaxes(title="structures, sorted by prediction", showgrid=False, **ticks)
    fig.update_yaxes(title=Quantity.MEAN.axis)
    return fig
