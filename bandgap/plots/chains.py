"""Figures on the agreement of chains: traces, rank plots and energies.

Rank plots: Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), section 4.2. Energies:
Betancourt (2016).
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.plots.style import (
    BASELINE,
    GOOD,
    LEGEND_ROW,
    MIND,
    MODEL,
    OBSERVED,
    PRIOR,
    Floats,
    add_line,
    density,
    faint,
    finished,
    padded,
)

CHAIN_COLOURS = (MODEL, OBSERVED, GOOD, PRIOR, MIND, BASELINE)
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")
_POINTS = 500  # largest number of draws of a chain in a trace


def traces(draws: ArrayLike, *, label: str) -> go.Figure:
    """Return the trace of every chain: draws (chain, draw) against their number, thinned if there
    are many.
    """
    values = np.asarray(draws, dtype=np.float64)
    draw_numbers = (
        np.linspace(0, values.shape[1] - 1, min(values.shape[1], _POINTS)).round().astype(int)
    )
    fig = go.Figure()
    for k, chain in enumerate(values):
        name = f"chain {k + 1}"
        hover = f"{name}, draw %{{x}}: %{{y:.3g}}<extra></extra>"
        colour = CHAIN_COLOURS[k % len(CHAIN_COLOURS)]
        add_line(
            fig,
            draw_numbers + 1,
            chain[draw_numbers],
            colour,
            width=1,
            name=name,
            opacity=0.75,
            hovertemplate=hover,
        )
    return finished(
        fig, height=260, x={"title": "draw after warm-up", "showgrid": False}, y={"title": label}
    )


def rank_counts(draws: ArrayLike, *, bins: int = 20) -> Floats:
    """Return the counts (chain, bin) of the ranks of each chain's draws among all draws (chain,
    draw).
    """
    from scipy.stats import rankdata  # slow to import (a second)

    values = np.asarray(draws, dtype=np.float64)
    ranks = rankdata(values).reshape(values.shape)
    bin_numbers = np.minimum(((ranks - 0.5) / values.size * bins).astype(int), bins - 1)
    return np.stack([np.bincount(chain, minlength=bins) for chain in bin_numbers]).astype(
        np.float64
    )


def rank_plot(draws: ArrayLike, *, bins: int = 20) -> go.Figure:
    """Return the rank plot of draws (chain, draw); it is flat where chains agree."""
    values = np.asarray(draws, dtype=np.float64)
    bins = min(bins, values.shape[1])
    counts = rank_counts(values, bins=bins)
    edges = np.linspace(0, 100, bins + 1)
    fig = go.Figure()
    for k, heights in enumerate(counts):
        line = {
            "color": CHAIN_COLOURS[k % len(CHAIN_COLOURS)],
            "width": 2,
            "dash": _DASHES[k % len(_DASHES)],
            "shape": "hv",
        }
        steps = np.append(heights, heights[-1])
        hover = f"chain {k + 1}: %{{y:.0f}} draws<extra></extra>"
        fig.add_scatter(
            x=edges, y=steps, mode="lines", name=f"chain {k + 1}", line=line, hovertemplate=hover
        )
    fig.add_hline(y=values.shape[1] / bins, line={"color": BASELINE, "width": 1, "dash": "dot"})
    x = {"title": "rank among all draws (%)", "range": [0, 100], "showgrid": False}
    return finished(
        fig, height=260, x=x, y={"title": "draws", "rangemode": "tozero"}, legend=LEGEND_ROW
    )


def energies(energy: ArrayLike) -> go.Figure:
    """Return the distributions of energies (chain, draw) about their mean and of their changes
    between draws.
    """
    values = np.asarray(energy, dtype=np.float64)
    centred = (values - values.mean(axis=1, keepdims=True)).ravel()
    changes = np.diff(values, axis=1).ravel()
    grid = np.linspace(*padded(np.concatenate([centred, changes])), 201)
    fig = go.Figure()
    for draws, colour, dash, name in (
        (centred, MODEL, "solid", "energy, less its mean"),
        (changes, OBSERVED, "dash", "change from draw to draw"),
    ):
        area: dict[str, Any] = {"fill": "tozeroy", "fillcolor": faint(colour, 0.12)}
        add_line(
            fig,
            grid,
            density(draws, grid),
            colour,
            name=name,
            line_dash=dash,
            hoverinfo="skip",
            **area,
        )
    x = {"title": "energy (natural units)", "showgrid": False}
    return finished(fig, height=240, x=x, y={"visible": False}, legend=LEGEND_ROW)
