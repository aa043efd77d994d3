"""Figures of the contents of a data set."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import BASELINE, MIND, MODEL, TEMPLATE, faint

Floats = NDArray[np.float64]

MOST_ELEMENTS = 20  # bars with a name below each
_BINS = 30


def element_counts(counts: Mapping[str, int], *, n: int) -> go.Figure:
    """Return the number of the `n` structures that contain each element, most frequent first.

    Of more than `MOST_ELEMENTS` elements, whose names would overprint, the most frequent are drawn.
    """
    by_count = sorted(counts.items(), key=lambda item: -item[1])[:MOST_ELEMENTS]
    symbols = [symbol for symbol, _ in by_count]
    values = [count for _, count in by_count]
    share = [100.0 * value / max(n, 1) for value in values]
    fig = go.Figure(
        go.Bar(
            x=symbols,
            y=values,
            customdata=share,
            marker={"color": BASELINE},
            hovertemplate="%{x}: %{y} structures (%{customdata:.0f} %)<extra></extra>",
        )
    )
    fig.update_layout(
        template=TEMPLATE,
        height=320,
        xaxis_title="element",
        yaxis_title="structures that contain it",
    )
    fig.update_xaxes(type="category", showgrid=False, tickmode="linear")
    return fig


def size_histogram(n_atoms: ArrayLike) -> go.Figure:
    """Return the distribution of the numbers of atoms (n,) in the cell or molecule."""
    sizes = np.asarray(n_atoms, dtype=np.float64)
    low, high = (float(sizes.min()), float(sizes.max())) if sizes.size else (1.0, 1.0)
    step = float(max(1, int(np.ceil((high - low) / _BINS))))
    edges: Floats = low - 0.5 + step * np.arange(int((high - low) // step) + 2, dtype=np.float64)
    fig = binned(sizes, edges, colour=BASELINE, unit="atoms")
    fig.update_layout(xaxis_title=Quantity.N_ATOMS.label, yaxis_title="structures")
    return fig


def binned(values: Floats, edges: Floats, *, colour: str, unit: str) -> go.Figure:
    """Return a histogram computed here, so that the figure contains counts and not all values."""
    counts, edges = np.histogram(values, bins=edges)
    fig = go.Figure(
        go.Bar(
            x=(edges[1:] + edges[:-1]) / 2,
            y=counts.tolist(),
            width=np.diff(edges),
            customdata=np.stack([edges[:-1], edges[1:]], axis=1),
            marker={"color": colour},
            hovertemplate=f"%{{customdata[0]:.3~g}} to %{{customdata[1]:.3~g}} {unit}: "
            f"%{{y}}<extra></extra>",
        )
    )
    fig.update_layout(template=TEMPLATE, height=320)
    return fig


def distance_percentiles(percentiles: ArrayLike, *, far: float) -> go.Figure:
    """Return the distribution of the distances of structures (n,) to a source, as percentiles; NaN
    is left out.

    It is uniform (dashed line) for structures like those of the source. Those above `far` (0 to 1)
    are marked.
    """
    values = np.asarray(percentiles, dtype=np.float64)
    values = 100.0 * values[np.isfinite(values)]
    edges = np.linspace(0.0, 100.0, 21)
    fig = binned(np.minimum(values, 100.0), edges, colour=MODEL, unit="%")
    fig.data[0].marker.color = [
        MIND if left_edge >= 100 * far - 1e-9 else MODEL for left_edge in edges[:-1]
    ]
    if values.size:
        fig.add_hline(y=values.size / 20, line={"color": BASELINE, "width": 1, "dash": "dash"})
    fig.add_vrect(x0=100 * far, x1=100, fillcolor=faint(MIND, 0.12), line_width=0)
    fig.update_layout(
        xaxis_title="percentile of the distance to the source (%)", yaxis_title="structures"
    )
    fig.update_xaxes(range=[0, 100])
    return fig
