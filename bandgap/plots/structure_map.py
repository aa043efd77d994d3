"""Maps of structures: one point each, coloured by a number or by the set that it belongs to."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.plots.style import (
    BASELINE,
    GOOD,
    LEGEND_ABOVE,
    MIND,
    MODEL,
    add_line,
    faint,
    finished,
    padded,
    plain,
)

_HEIGHT = 400
_WEBGL_FROM = 1_500  # points; fewer are sharper and quicker to draw as SVG
_SETS = {  # colour and symbol of the sets that have a meaning in the whole application
    "learned from": (BASELINE, "square"),
    "in domain": (MODEL, "circle"),
    "held out": (MODEL, "circle"),
    "mind the warning": (MIND, "diamond"),
}
_OTHER_SET = (GOOD, "triangle-up")


def structure_map_figure(
    x: ArrayLike,
    y: ArrayLike,
    *,
    rows: ArrayLike,
    labels: Sequence[str],
    titles: tuple[str, str],
    values: ArrayLike | None = None,
    value_title: str = "",
    sets: Sequence[str] | None = None,
    is_diagonal: bool = False,
) -> go.Figure:
    """Return structures as points that can be selected by a click, a box or a lasso.

    Parameters
    ----------
    x, y
        Coordinates (n,).
    rows
        Row (n,) of every structure, in the `customdata` of its point.
    labels
        Hover texts (n,).
    titles
        Titles of the axes.
    values
        Numbers (n,) that give the colour; a scale of negative and positive numbers is centred.
    value_title
        Title of the scale of colours.
    sets
        Names (n,) of sets, which have colours and shapes, instead of numbers.
    is_diagonal
        Whether the diagonal is drawn and both axes are equal.
    """
    across = np.asarray(x, dtype=np.float64)
    up = np.asarray(y, dtype=np.float64)
    numbers = np.asarray(rows, dtype=np.int64)
    texts = plain(labels)
    scatter = go.Scattergl if across.size >= _WEBGL_FROM else go.Scatter
    size = 7 if across.size < 300 else 5
    fig = go.Figure()
    ends = padded(np.concatenate([across, up]))
    if is_diagonal:
        add_line(fig, ends, ends, BASELINE, width=1, hoverinfo="skip", showlegend=False)
    groups: list[tuple[str, np.ndarray, dict[str, object]]] = []
    if sets is not None:
        set_of_point = np.array(sets, dtype=object)
        present = set(sets)
        ordered = [name for name in _SETS if name in present] + sorted(present - set(_SETS))
        for name in ordered:  # what was learned from is behind the others
            colour, symbol = _SETS.get(name, _OTHER_SET)
            marker = {"color": faint(colour, 0.75), "symbol": symbol, "size": size}
            groups.append((name, np.flatnonzero(set_of_point == name), marker))
    else:
        shade = np.asarray(values, dtype=np.float64)
        largest = float(np.nanmax(np.abs(shade))) if np.isfinite(shade).any() else 1.0
        is_signed = bool((shade < 0).any())
        marker = {
            "color": shade,
            "size": size,
            "colorscale": "RdBu" if is_signed else "Viridis",
            "colorbar": {"title": {"text": value_title, "side": "right"}, "thickness": 12},
            "line": {"width": 0.5, "color": BASELINE},
        }
        if is_signed:
            marker |= {"cmin": -largest, "cmax": largest}
        groups.append(("", np.arange(across.size), marker))
    for name, members, marker in groups:
        fig.add_trace(
            scatter(
                x=across[members],
                y=up[members],
                mode="markers",
                marker=marker,
                name=f"{name} ({members.size:,})" if name else "",
                customdata=numbers[members],
                text=texts[members],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    fig.update_layout(dragmode="pan", clickmode="event+select")
    if sets is not None:
        fig.update_layout(showlegend=True, **LEGEND_ABOVE)
    x_axis: dict[str, object] = {"title": titles[0]}
    y_axis: dict[str, object] = {"title": titles[1]}
    if is_diagonal:
        x_axis |= {"range": list(ends), "constrain": "domain"}
        y_axis |= {"range": list(ends), "scaleanchor": "x", "scaleratio": 1, "constrain": "domain"}
    return finished(fig, height=_HEIGHT, x=x_axis, y=y_axis)
