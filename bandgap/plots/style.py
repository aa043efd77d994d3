"""Palette, template and helper functions of all figures.

Palette: Okabe and Ito (2008).
"""

import html
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

MODEL = "#0072B2"  # blue: our model
OBSERVED = "#D55E00"  # orange: observed, truth
GOOD = "#009E73"
MIND = "#E69F00"
PRIOR = "#CC79A7"
BASELINE = "#7A8086"

LEGEND_ABOVE = {
    "legend": {
        "orientation": "h",
        "x": 0,
        "y": 1.02,
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": 12},
    },
    "margin": {"t": 34},
}

_INK = {False: "#1B1F24", True: "#E6E9EC"}
_GUIDE = {False: "#E3E6E9", True: "#2A3138"}

Floats = NDArray[np.float64]


@cache
def template(*, dark: bool = False) -> go.layout.Template:
    """Return the template of all figures: no box, thin guides, transparent background."""
    ink = _INK[dark]
    guide = _GUIDE[dark]
    axis = {
        "showgrid": True,
        "gridcolor": guide,
        "zeroline": False,
        "showline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": guide,
        "title": {"font": {"size": 13}, "standoff": 8},
        "automargin": True,
    }
    return go.layout.Template(
        layout={
            "font": {
                "family": "Source Sans, Source Sans Pro, Helvetica, Arial, sans-serif",
                "size": 13,
                "color": ink,
            },
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": [MODEL, OBSERVED, GOOD, MIND, PRIOR, BASELINE],
            "xaxis": axis,
            "yaxis": axis,
            "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
            "height": 360,
            "showlegend": False,
            "hoverlabel": {"font": {"size": 12}},
            "bargap": 0.06,
        }
    )


TEMPLATE = template()


@cache
def theme_css() -> str:
    """Return the style sheet that gives figures the text and guide colours of the present theme.

    Streamlit does not rerun a page when the theme changes (streamlit/streamlit#15287); without the
    style sheet figures would keep the colours of the earlier theme.
    """
    rules = []
    for part, colours in (("fill", _INK), ("stroke", _GUIDE)):
        colour_css = f"light-dark({colours[False]}, {colours[True]})"
        for red, green, blue in map(_channels, colours.values()):
            # The style that Plotly writes.
            selector = f'.js-plotly-plot [style*="{part}: rgb({red}, {green}, {blue})"]'
            rules.append(f"{selector} {{ {part}: {colour_css} !important }}")
    return "\n".join(rules)


def finished(
    fig: go.Figure,
    *,
    height: int,
    x: dict[str, Any],
    y: dict[str, Any],
    legend: dict[str, Any] | None = None,
) -> go.Figure:
    """Return the figure with the common template, settings of its axes and, if given, a legend."""
    fig.update_layout(template=TEMPLATE, height=height)
    if legend is not None:
        fig.update_layout(showlegend=True, legend=legend)
    fig.update_xaxes(**x)
    fig.update_yaxes(**y)
    return fig


def add_line(
    fig: go.Figure, x: ArrayLike, y: ArrayLike, colour: str, *, width: float = 2, **options: Any
) -> None:
    """Add a line; further options are those of a Plotly scatter, such as `line_dash`."""
    fig.add_scatter(x=x, y=y, mode="lines", line={"color": colour, "width": width}, **options)


def add_points(fig: go.Figure, x: ArrayLike, y: ArrayLike, *style: Any, **options: Any) -> None:
    """Add points; `style` is colour, symbol and size of `marker`, further options are those of a
    Plotly scatter.
    """
    fig.add_scatter(x=x, y=y, mode="markers", marker=marker(*style), **options)


def plain(texts: Iterable[object]) -> NDArray[np.object_]:
    """Return texts (n,) with HTML escaped, because Plotly renders HTML in names, labels and hover
    texts.

    >>> plain(["<b>bold</b> & plain"]).tolist()
    ['&lt;b&gt;bold&lt;/b&gt; &amp; plain']
    """
    return np.array([html.escape(str(text), quote=False) for text in texts], dtype=object)


def padded(values: Floats) -> tuple[float, float]:
    """Return a range slightly wider than that of the finite values."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low = float(finite.min())
    high = float(finite.max())
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad


def faint(colour: str, opacity: float = 0.25) -> str:
    """Return a colour "#RRGGBB" at an opacity."""
    red, green, blue = _channels(colour)
    return f"rgba({red},{green},{blue},{opacity})"


def marker(colour: str, symbol: str, size: float) -> dict[str, Any]:
    """Return a marker; only an open symbol has a line."""
    line = {"width": 1.5 if symbol.endswith("-open") else 0, "color": colour}
    return {"color": colour, "symbol": symbol, "size": size, "line": line}


def bars(
    middle: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    colour: str = "",
    thickness: float = 1.0,
) -> dict[str, Any]:
    """Return error bars of points `middle` (n,) from `lower` to `upper`.

    The default colour is that of the trace.
    """
    centre, low, high = (np.asarray(values, dtype=np.float64) for values in (middle, lower, upper))
    error_bars = {
        "type": "data",
        "symmetric": False,
        "array": high - centre,
        "arrayminus": centre - low,
        "thickness": thickness,
        "width": 0.0,
    }
    return error_bars | ({"color": colour} if colour else {})


def density(values: Floats, grid: Floats) -> Floats:
    """Return a kernel density on an even grid, by Scott's rule; constant draws give a narrow peak.

    For speed, each draw is first distributed over the two nearest grid points (linear binning).
    """
    step = float(grid[1] - grid[0])
    spread = float(values.std(ddof=1)) if values.size > 2 else 0.0
    width = max(spread * values.size**-0.2, step)
    position = np.clip((values - grid[0]) / step, 0.0, grid.size - 1.0)
    low = np.minimum(position.astype(np.int64), grid.size - 2)
    fraction = position - low
    counts = np.bincount(low, 1.0 - fraction, grid.size) + np.bincount(low + 1, fraction, grid.size)
    kernel = np.exp(-0.5 * (step * np.arange(1 - grid.size, grid.size) / width) ** 2)
    smoothed = np.convolve(counts, kernel, mode="valid")
    return np.asarray(smoothed / (values.size * width * np.sqrt(2.0 * np.pi)), dtype=np.float64)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
