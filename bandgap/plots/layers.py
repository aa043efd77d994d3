"""Figures on the layers of a transferred network: ternary diagram and scales."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.plots.style import (
    BASELINE,
    LEGEND_ROW,
    MODEL,
    PRIOR,
    TEMPLATE,
    add_line,
    add_points,
    faint,
    finished,
)

_POINTS = 400  # largest number of draws in a cloud


def ternary(c: ArrayLike, *, layers: Sequence[str], prior: ArrayLike | None = None) -> go.Figure:
    """Return draws (draw, 3) of the shares of three layers in a ternary diagram, with draws of
    their prior.
    """
    fig = go.Figure()
    for draws, colour, symbol, size, name in (
        (prior, PRIOR, "diamond-open", 4, "before (prior)"),
        (c, MODEL, "circle", 5, "after (posterior)"),
    ):
        if draws is None:
            continue
        values = np.asarray(draws, dtype=np.float64)
        values = values[
            np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int)
        ]
        fig.add_scatterternary(
            a=values[:, 2],
            b=values[:, 0],
            c=values[:, 1],
            mode="markers",
            name=name,
            marker={"color": faint(colour, 0.55), "symbol": symbol, "size": size},
            hovertemplate="%{b:.2f}, %{c:.2f}, %{a:.2f}<extra></extra>",
        )
    axis = {
        "min": 0,
        "tickvals": [0.25, 0.5, 0.75],
        "ticks": "outside",
        "linewidth": 1,
        "color": BASELINE,
    }
    titles = {"aaxis": layers[2], "baxis": layers[0], "caxis": layers[1]}
    corners = {
        name: axis | {"title": {"text": title, "font": {"size": 12}}}
        for name, title in titles.items()
    }
    legend = {"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top", "font": {"size": 11}}
    fig.update_layout(
        template=TEMPLATE,
        height=340,
        showlegend=True,
        legend=legend,
        margin={"t": 32, "l": 40, "r": 40},
    )
    fig.update_layout(ternary={"sum": 1, "bgcolor": "rgba(0,0,0,0)", **corners})
    return fig


def layer_scales(
    draws: ArrayLike,
    *,
    layers: Sequence[str],
    title: str,
    prior: ArrayLike | None = None,
    log: bool = True,
) -> go.Figure:
    """Return median, central half and central 95 % of a quantity of every layer from draws (draw,
    layer).

    Those of the prior are below each, in another colour and marker.
    """
    values = np.asarray(draws, dtype=np.float64)
    fig = go.Figure()
    for group_draws, colour, symbol, shift, name in (
        (values, MODEL, "circle", 0.13, "after (posterior)"),
        (prior, PRIOR, "diamond-open", -0.17, "before (prior)"),
    ):
        if group_draws is None:
            continue
        quantiles = np.quantile(
            np.asarray(group_draws, dtype=np.float64), [0.025, 0.25, 0.5, 0.75, 0.975], axis=0
        )
        y = np.arange(values.shape[1])[::-1] + shift
        for low, high, width in ((0, 4, 1.5), (1, 3, 5)):
            ends = np.stack([quantiles[low], quantiles[high], np.full(y.size, np.nan)], 1).ravel()
            heights = np.stack([y, y, np.full(y.size, np.nan)], 1).ravel()
            style = {"opacity": 1.0 if width < 2 else 0.5, "hoverinfo": "skip", "showlegend": False}
            add_line(fig, ends, heights, colour, width=width, **style)
        hover = (
            "median %{x:.2g} (95 %: %{customdata[0]:.2g} to %{customdata[1]:.2g})<extra></extra>"
        )
        ends_95 = np.stack([quantiles[0], quantiles[4]], 1)
        add_points(
            fig,
            quantiles[2],
            y,
            colour,
            symbol,
            9,
            name=name,
            customdata=ends_95,
            hovertemplate=hover,
        )
    axis_type = (
        {"type": "log", "dtick": 1, "exponentformat": "power"}
        if log
        else {"type": "linear", "range": [0, 1]}
    )
    names = list(layers)[::-1]
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "showgrid": False,
    }
    return finished(
        fig,
        height=100 + 56 * values.shape[1],
        x={"title": title, **axis_type},
        y=ticks,
        legend=LEGEND_ROW,
    )


def feature_changes(
    change_eV: ArrayLike, sd_eV: ArrayLike, kept_share: ArrayLike | None, *, features: ArrayLike
) -> go.Figure:
    """Return the change of the gap by each feature's weight, (n,) in eV, with one standard
    deviation.

    The order is that of the arguments. With `kept_share` (n,) the colour shows the share of the
    change that remains after shrinkage by the prior.
    """
    change = np.asarray(change_eV, dtype=np.float64)
    spread = np.asarray(sd_eV, dtype=np.float64)
    names = [f"feature {int(k)}" for k in np.asarray(features)]
    markers: dict[str, object] = {"color": MODEL, "size": 8}
    if kept_share is not None:
        scale = [[0.0, BASELINE], [1.0, MODEL]]
        bar = {"title": {"text": "share kept"}, "thickness": 10, "len": 0.8}
        markers |= {
            "color": np.asarray(kept_share),
            "cmin": 0,
            "cmax": 1,
            "colorscale": scale,
            "colorbar": bar,
        }
    fig = go.Figure(
        go.Scatter(
            x=change,
            y=names,
            mode="markers",
            marker=markers,
            error_x={
                "type": "data",
                "array": spread,
                "thickness": 1,
                "width": 0,
                "color": faint(MODEL, 0.6),
            },
            hovertemplate="%{y}: %{x:.3f} eV<extra></extra>",
        )
    )
    fig.add_vline(x=0, line={"color": BASELINE, "width": 1, "dash": "dot"})
    x = {"title": "change of the gap for one standard deviation of the feature (eV)"}
    return finished(
        fig, height=110 + 22 * len(names), x=x, y={"autorange": "reversed", "showgrid": False}
    )


def validation_curve(
    values: ArrayLike, scores: ArrayLike, *, name: str, selected: float
) -> go.Figure:
    """Return held-out negative log predictive density (k,) against values (k,) of a setting, with a
    mark.
    """
    x = np.asarray(values, dtype=np.float64)
    y = np.asarray(scores, dtype=np.float64)
    labels = [f"{v:g}" for v in x]
    fig = go.Figure(
        go.Scatter(
            x=labels,
            y=y,
            mode="lines+markers",
            line={"color": MODEL, "width": 2},
            marker={"size": 8},
            hovertemplate=f"{name} %{{x}}: %{{y:.3f}}<extra></extra>",
        )
    )
    chosen_rows = np.flatnonzero(x == selected)
    fig.add_scatter(
        x=[labels[k] for k in chosen_rows],
        y=y[chosen_rows],
        mode="markers+text",
        text=["chosen"] * chosen_rows.size,
        textposition="top center",
        marker={"size": 14, "symbol": "circle-open", "color": MODEL, "line": {"width": 2}},
        hoverinfo="skip",
    )
    axis = {"title": name, "type": "category", "showgrid": False}
    return finished(fig, height=280, x=axis, y={"title": "NLL of held-out rows"})
