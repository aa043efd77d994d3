"""Figures on the agreement of chains."""

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.plots.style import (
    BASELINE,
    GOOD,
    MIND,
    MODEL,
    OBSERVED,
    PRIOR,
    add_line,
    finished,
)

CHAIN_COLOURS = (MODEL, OBSERVED, GOOD, PRIOR, MIND, BASELINE)
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
