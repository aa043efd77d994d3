"""Figures of known and predicted gaps."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import (
    BASELINE,
    GOOD,
    LEGEND_ABOVE,
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

_INTERVAL_HOVER = (
    "%{text}<br>%{y:.2f} eV (%{customdata[0]:.2f} to %{customdata[1]:.2f})<extra></extra>"
)


def gap_histogram(gaps_eV: ArrayLike) -> go.Figure:
    """Return the distribution of known gaps (n,) in eV; NaN is left out.

    The figure contains the counts and not all gaps.
    """
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    gaps = gaps[np.isfinite(gaps)]
    counts, edges = np.histogram(gaps, bins=np.linspace(*gap_range(gaps), 31))
    fig = go.Figure(
        go.Bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=counts.tolist(),
            width=np.diff(edges),
            customdata=np.stack([edges[:-1], edges[1:]], axis=1),
            marker={"color": OBSERVED},
            hovertemplate="%{customdata[0]:.3~g} to %{customdata[1]:.3~g} eV: %{y}<extra></extra>",
        )
    )
    return finished(fig, height=220, x={"title": Quantity.GAP.axis}, y={"title": "structures"})


def gap_range(gaps_eV: ArrayLike) -> tuple[float, float]:
    """Return the range of the gaps (n,) in eV, at least 0.1 eV wide."""
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
) -> go.Figure:
    """Return predicted against observed gaps (n,) in eV with intervals as thin bars, equal axes and
    the diagonal.

    The legend is above the figure, because bars may be anywhere in it.
    """
    observed = np.asarray(observed_eV, dtype=np.float64)
    mean = np.asarray(mean_eV, dtype=np.float64)
    lower = np.asarray(lower_eV, dtype=np.float64)
    upper = np.asarray(upper_eV, dtype=np.float64)
    inside = (observed >= lower) & (observed <= upper)
    ends = _parity_ends(observed, mean, lower, upper)
    fig = go.Figure()
    add_line(fig, ends, ends, BASELINE, width=1, hoverinfo="skip", showlegend=False)
    for selection, colour, symbol, name in (
        (inside, MODEL, "circle", "in its interval"),
        (~inside, MIND, "diamond-open", "outside its interval"),
    ):
        fig.add_scatter(
            x=observed[selection],
            y=mean[selection],
            mode="markers",
            name=f"{name} ({np.count_nonzero(selection)})",
            marker=marker(colour, symbol, 6),
            error_y=bars(
                mean[selection],
                lower[selection],
                upper[selection],
                colour=faint(colour, 0.6),  # also visible in the dark theme
                thickness=0.8,
            ),
            customdata=plain(ids)[selection],
            hovertemplate="%{customdata}<br>observed %{x:.2f} eV<br>predicted %{y:.2f} "
            "eV<extra></extra>",
        )
    axis_range = {"range": list(ends), "constrain": "domain"}
    y = {"title": Quantity.MEAN.axis, "scaleanchor": "x", "scaleratio": 1, **axis_range}
    fig.update_layout(showlegend=True, **LEGEND_ABOVE)
    return finished(
        fig, height=400, x={"title": f"observed {Quantity.GAP.axis}", **axis_range}, y=y
    )


def _parity_ends(
    observed_eV: ArrayLike, mean_eV: ArrayLike, lower_eV: ArrayLike, upper_eV: ArrayLike
) -> tuple[float, float]:
    """Return the ends in eV of both axes for these points and intervals, (n,) each.

    Intervals that reach farther beyond the points than a quarter of their range are cut, so that
    the points are not squeezed together.
    """
    points = np.concatenate([np.asarray(values, float) for values in (observed_eV, mean_eV)])
    points = points[np.isfinite(points)]
    bars_eV = np.concatenate([np.asarray(values, float) for values in (lower_eV, upper_eV)])
    if points.size:
        reach = 0.25 * float(np.ptp(points))
        bars_eV = np.clip(bars_eV, points.min() - reach, points.max() + reach)
    return padded(np.concatenate([points, bars_eV]))


MANY_NAMES = 30  # bars, up to which each has the name of its structure
MAX_INTERVALS = 5_000  # bars, which a browser draws in about a second


def intervals(
    mean_eV: ArrayLike,
    lower_eV: ArrayLike,
    upper_eV: ArrayLike,
    *,
    ids: Sequence[str],
    unusual: ArrayLike,
    window: tuple[float, float] | None = None,
) -> go.Figure:
    """Return predictions (n,) in eV sorted by their mean, with intervals as bars.

    Rows that are `unusual` have another marker. A target window in eV is a band. The legend is
    above the figure, because bars may be anywhere in it. Of more than `MAX_INTERVALS` predictions
    so many are drawn, evenly spaced in their order, at their own ranks.
    """
    mean = np.asarray(mean_eV, dtype=np.float64)
    order = np.argsort(mean)[np.isfinite(np.sort(mean))]
    lower = np.asarray(lower_eV, dtype=np.float64)
    upper = np.asarray(upper_eV, dtype=np.float64)
    is_unusual = np.asarray(unusual, dtype=bool)
    n_predicted = order.size
    n_drawn = min(n_predicted, MAX_INTERVALS)
    places = np.linspace(0, max(n_predicted - 1, 0), n_drawn).round().astype(int)
    order = order[places]
    rank = places + 1
    fig = go.Figure()
    if window is not None:
        fig.add_hrect(*window, fillcolor=GOOD, opacity=0.15, line_width=0, layer="below")
    for selection, colour, symbol, name in (
        (~is_unusual[order], MODEL, "circle", "in domain"),
        (is_unusual[order], MIND, "diamond-open", "mind the warning"),
    ):
        rows = order[selection]
        fig.add_scatter(
            x=rank[selection],
            y=mean[rows],
            mode="markers",
            name=name,
            marker=marker(colour, symbol, 7),
            error_y=bars(mean[rows], lower[rows], upper[rows]),
            text=plain(ids)[rows].tolist(),
            customdata=np.stack([lower[rows], upper[rows]], axis=1),
            hovertemplate=_INTERVAL_HOVER,
        )
    has_names = n_predicted <= MANY_NAMES
    fig.update_layout(template=TEMPLATE, height=420 if has_names else 340, showlegend=False)
    if is_unusual.any():
        fig.update_layout(showlegend=True, **LEGEND_ABOVE)
    if has_names:
        ticks = {"tickvals": rank, "ticktext": plain(ids)[order].tolist(), "tickangle": -90}
        ticks["tickfont"] = {"size": 10}
    else:  # whole numbers, about eight of them
        ticks = {"tick0": 1, "dtick": math.ceil(n_predicted / 8)}
    fig.update_xaxes(
        title="structures, sorted by prediction", showgrid=False, automargin=True, **ticks
    )
    fig.update_yaxes(title=Quantity.MEAN.axis)
    return fig
