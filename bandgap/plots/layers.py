"""Figures of what every layer of a transferred network did: a ternary diagram of shares, and scales layer by layer."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.plots.style import BASELINE, LEGEND_ROW, MODEL, PRIOR, TEMPLATE, add_line, add_points, faint, finished

_POINTS = 400  # of a cloud


def ternary(c: ArrayLike, *, layers: Sequence[str], prior: ArrayLike | None = None) -> go.Figure:
    """Return draws (draw, 3) of the shares of three layers in a ternary diagram, above those of their prior."""
    fig = go.Figure()
    for draws, colour, symbol, size, name in (
        (prior, PRIOR, "diamond-open", 4, "before (prior)"),
        (c, MODEL, "circle", 5, "after (posterior)"),
    ):
        if draws is None:
            continue
        values = np.asarray(draws, dtype=np.float64)
        values = values[np.linspace(0, len(values) - 1, min(len(values), _POINTS)).round().astype(int)]
        fig.add_scatterternary(
            a=values[:, 2],
            b=values[:, 0],
            c=values[:, 1],
            mode="markers",
            name=name,
            marker={"color": faint(colour, 0.55), "symbol": symbol, "size": size},
            hovertemplate="%{b:.2f}, %{c:.2f}, %{a:.2f}<extra></extra>",
        )
    axis = {"min": 0, "tickvals": [0.25, 0.5, 0.75], "ticks": "outside", "linewidth": 1, "color": BASELINE}
    titles = {"aaxis": layers[2], "baxis": layers[0], "caxis": layers[1]}
    corners = {name: axis | {"title": {"text": title, "font": {"size": 12}}} for name, title in titles.items()}
    legend = {"orientation": "h", "x": 0, "y": -0.12, "yanchor": "top", "font": {"size": 11}}
    fig.update_layout(template=TEMPLATE, height=340, showlegend=True, legend=legend, margin={"t": 32, "l": 40, "r": 40})
    fig.update_layout(ternary={"sum": 1, "bgcolor": "rgba(0,0,0,0)", **corners})
    return fig


def layer_scales(
    draws: ArrayLike, *, layers: Sequence[str], title: str, prior: ArrayLike | None = None, log: bool = True
) -> go.Figure:
    """Return median, central half and central 95 % of a quantity of every layer from draws (draw, layer).

    Those of the prior stand below each in its own colour and marker.
    """
    values = np.asarray(draws, dtype=np.float64)
    fig = go.Figure()
    for of, colour, symbol, shift, name in (
        (values, MODEL, "circle", 0.13, "after (posterior)"),
        (prior, PRIOR, "diamond-open", -0.17, "before (prior)"),
    ):
        if of is None:
            continue
        quantiles = np.quantile(np.asarray(of, dtype=np.float64), [0.025, 0.25, 0.5, 0.75, 0.975], axis=0)
        y = np.arange(values.shape[1])[::-1] + shift
        for low, high, width in ((0, 4, 1.5), (1, 3, 5)):
            ends = np.stack([quantiles[low], quantiles[high], np.full(y.size, np.nan)], 1).ravel()
            heights = np.stack([y, y, np.full(y.size, np.nan)], 1).ravel()
            shade = {"opacity": 1.0 if width < 2 else 0.5, "hoverinfo": "skip", "showlegend": False}
            add_line(fig, ends, heights, colour, width=width, **shade)
        hover = "median %{x:.2g} (95 %: %{customdata[0]:.2g} to %{customdata[1]:.2g})<extra></extra>"
        beside = np.stack([quantiles[0], quantiles[4]], 1)
        add_points(fig, quantiles[2], y, colour, symbol, 9, name=name, customdata=beside, hovertemplate=hover)
    kind = {"type": "log", "dtick": 1, "exponentformat": "power"} if log else {"type": "linear", "range": [0, 1]}
    names = list(layers)[::-1]
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names, "showgrid": False}
    return finished(fig, height=100 + 56 * values.shape[1], x={"title": title, **kind}, y=ticks, legend=LEGEND_ROW)


def feature_changes(
    change_eV: ArrayLike, sd_eV: ArrayLike, kept_share: ArrayLike | None, *, features: ArrayLike
) -> go.Figure:
    """Return by how much each feature's weight changed the gap (n,) in eV, largest first, with one standard deviation.

    With `kept_share` (n,) the colour tells how much of the feature's own change the prior left.
    """
    change, spread = np.asarray(change_eV, dtype=np.float64), np.asarray(sd_eV, dtype=np.float64)
    names = [f"feature {int(k)}" for k in np.asarray(features)]
    points: dict[str, object] = {"color": MODEL, "size": 8}
    if kept_share is not None:
        scale = [[0.0, BASELINE], [1.0, MODEL]]
        bar = {"title": {"text": "share kept"}, "thickness": 10, "len": 0.8}
        points |= {"color": np.asarray(kept_share), "cmin": 0, "cmax": 1, "colorscale": scale, "colorbar": bar}
    fig = go.Figure(
        go.Scatter(
            x=change,
            y=names,
            mode="markers",
            marker=points,
            error_x={"type": "data", "array": spread, "thickness": 1, "width": 0, "color": faint(MODEL, 0.6)},
            hovertemplate="%{y}: %{x:.3f} eV<extra></extra>",
        )
    )
    fig.add_vline(x=0, line={"color": BASELINE, "width": 1, "dash": "dot"})
    x = {"title": "change of the gap for one standard deviation of the feature (eV)"}
    return finished(fig, height=110 + 22 * len(names), x=x, y={"autorange": "reversed", "showgrid": False})


def validation_curve(values: ArrayLike, scores: ArrayLike, *, name: str, chosen: float) -> go.Figure:
    """Return held-out negative log predictive density (k,) against a setting's values (k,), the chosen one marked."""
    x, y = np.asarray(values, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    places = [f"{v:g}" for v in x]
    fig = go.Figure(
        go.Scatter(
            x=places,
            y=y,
            mode="lines+markers",
            line={"color": MODEL, "width": 2},
            marker={"size": 8},
            hovertemplate=f"{name} %{{x}}: %{{y:.3f}}<extra></extra>",
        )
    )
    picked = np.flatnonzero(x == chosen)
    fig.add_scatter(
        x=[places[k] for k in picked],
        y=y[picked],
        mode="markers+text",
        text=["chosen"] * picked.size,
        textposition="top center",
        marker={"size": 14, "symbol": "circle-open", "color": MODEL, "line": {"width": 2}},
        hoverinfo="skip",
    )
    axis = {"title": name, "type": "category", "showgrid": False}
    return finished(fig, height=280, x=axis, y={"title": "NLL of held-out rows"})
