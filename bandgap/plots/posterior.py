"""Figures of posterior draws, compared with the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from bandgap.foundation.quantities import Quantity
from bandgap.plots.style import MODEL, PRIOR, Floats, add_line, density, faint, finished

_GRID_POINTS = 241


def layer_names(count: int) -> list[str]:
    """Return the names of `count` layers, of which the last one is the output layer."""
    return [f"layer {k + 1}" for k in range(count - 1)] + ["output layer"]


def layer_weights(
    c: ArrayLike, *, layers: Sequence[str], prior_draws: ArrayLike | None = None
) -> go.Figure:
    """Return the posterior of the layer weights c, draws (draw, layer), and their prior, one row a
    layer.

    The prior is that of `prior_draws` (draw, layer). Without them it is Dirichlet(1, ..., 1), in
    which one weight of L is Beta(1, L - 1).
    """
    draws = np.asarray(c, dtype=np.float64)
    n_layers = draws.shape[1]
    grid = np.linspace(0.0, 1.0, _GRID_POINTS)
    priors = _prior_densities(prior_draws, grid, n_layers=n_layers)
    densities = [_share_density(draws[:, k], grid) for k in range(n_layers)]
    fig = go.Figure()
    for k, (name, after, prior) in enumerate(zip(layers, densities, priors, strict=True)):
        base = float(n_layers - 1 - k)
        peak = max(after.max(), prior.max())
        _ridge(
            fig, grid, base=base, height=0.82 * after / peak, colour=MODEL, name=name, filled=True
        )
        prior_height = 0.82 * prior / peak
        _ridge(
            fig,
            grid,
            base=base,
            height=prior_height,
            colour=PRIOR,
            name=f"prior, {name}",
            filled=False,
        )
    x = {"title": f"{Quantity.C.axis} (share, 0 to 1)", "range": [0, 1]}
    y = {"tickmode": "array", "tickvals": list(range(n_layers))[::-1], "ticktext": list(layers)}
    return finished(
        fig, height=110 + 85 * n_layers, x=x, y=y | {"showgrid": False, "range": [-0.08, n_layers]}
    )


def _ridge(
    fig: go.Figure,
    grid: Floats,
    *,
    base: float,
    height: Floats,
    colour: str,
    name: str,
    filled: bool,
) -> None:
    if filled:
        fig.add_scatter(
            x=grid, y=np.full_like(grid, base), mode="lines", line={"width": 0}, hoverinfo="skip"
        )
    area: dict[str, Any] = {"fill": "tonexty", "fillcolor": faint(colour)} if filled else {}
    dash = "solid" if filled else "dash"
    add_line(fig, grid, base + height, colour, name=name, line_dash=dash, hoverinfo="skip", **area)


def _share_density(shares: Floats, grid: Floats) -> Floats:
    """Return a density on a grid of [0, 1]; the parts outside are reflected at the ends."""
    wide = np.linspace(-1.0, 2.0, 3 * (grid.size - 1) + 1)
    unfolded = density(shares, wide)
    n = grid.size
    return unfolded[n - 1 : 2 * n - 1] + unfolded[n - 1 :: -1][:n] + unfolded[: 2 * n - 3 : -1][:n]


def _prior_densities(draws: ArrayLike | None, grid: Floats, *, n_layers: int) -> list[Floats]:
    if draws is None:
        return [(n_layers - 1.0) * (1.0 - grid.clip(1e-3, 1 - 1e-3)) ** (n_layers - 2.0)] * n_layers
    values = np.asarray(draws, dtype=np.float64)
    return [_share_density(values[:, k], grid) for k in range(n_layers)]
