"""Figures of the dashboard and of notebooks: plotly only, one template, one meaning for each colour.

Every function returns a `plotly.graph_objects.Figure`; arrays are numpy, energies in eV. Palette: Okabe and Ito (2008).
"""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, gaussian_kde

from bandgap.quantities import Quantity

MODEL = "#0072B2"  # blue: our model
OBSERVED = "#D55E00"  # orange: observed, truth
GOOD = "#009E73"
MIND = "#E69F00"
PRIOR = "#CC79A7"
BASELINE = "#7A8086"

_INK = {False: "#1B1F24", True: "#E6E9EC"}
_GUIDE = {False: "#E3E6E9", True: "#2A3138"}
_GRID_POINTS = 241

Floats = NDArray[np.float64]


def template(*, dark: bool = False) -> go.layout.Template:
    """Return the template that all figures share: no box, thin guides, transparent background."""
    ink, guide = _INK[dark], _GUIDE[dark]
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
            "font": {"family": "Source Sans, Source Sans Pro, Helvetica, Arial, sans-serif", "size": 13, "color": ink},
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


def gap_histogram(gaps_eV: ArrayLike) -> go.Figure:
    """Return the distribution of known gaps (n,) in eV; NaN is left out."""
    gaps = np.asarray(gaps_eV, dtype=np.float64)
    gaps = gaps[np.isfinite(gaps)]
    fig = go.Figure(
        go.Histogram(x=gaps, nbinsx=30, marker={"color": OBSERVED}, hovertemplate="%{x} eV: %{y}<extra></extra>")
    )
    fig.update_layout(template=TEMPLATE, height=320, xaxis_title=Quantity.GAP.axis, yaxis_title="structures")
    return fig


def parity(
    observed_eV: ArrayLike, mean_eV: ArrayLike, lower_eV: ArrayLike, upper_eV: ArrayLike, *, ids: Sequence[str]
) -> go.Figure:
    """Return predicted against observed gaps (n,) in eV with intervals as thin bars, equal axes and the diagonal."""
    observed, mean = np.asarray(observed_eV, dtype=np.float64), np.asarray(mean_eV, dtype=np.float64)
    lower, upper = np.asarray(lower_eV, dtype=np.float64), np.asarray(upper_eV, dtype=np.float64)
    inside = (observed >= lower) & (observed <= upper)
    ends = _padded(np.concatenate([observed, mean]))
    fig = go.Figure(
        go.Scatter(
            x=ends, y=ends, mode="lines", line={"color": BASELINE, "width": 1}, hoverinfo="skip", showlegend=False
        )
    )
    for chosen, colour, symbol, name in (
        (inside, MODEL, "circle", "in its interval"),
        (~inside, MIND, "diamond-open", "outside its interval"),
    ):
        fig.add_scatter(
            x=observed[chosen],
            y=mean[chosen],
            mode="markers",
            name=f"{name} ({np.count_nonzero(chosen)})",
            marker={
                "color": colour,
                "symbol": symbol,
                "size": 6,
                "line": {"width": 1.5 if colour == MIND else 0, "color": colour},
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": (upper - mean)[chosen],
                "arrayminus": (mean - lower)[chosen],
                "thickness": 0.8,
                "width": 0,
                "color": _faint(colour, 0.4),
            },
            customdata=np.asarray(ids, dtype=object)[chosen],
            hovertemplate="%{customdata}<br>observed %{x:.2f} eV<br>predicted %{y:.2f} eV<extra></extra>",
        )
    fig.update_layout(template=TEMPLATE, height=400, showlegend=True, legend=_LEGEND_INSIDE)
    fig.update_xaxes(title=f"observed {Quantity.GAP.axis}", range=list(ends), constrain="domain")
    fig.update_yaxes(title=Quantity.MEAN.axis, range=list(ends), scaleanchor="x", scaleratio=1, constrain="domain")
    return fig


def intervals(
    mean_eV: ArrayLike, lower_eV: ArrayLike, upper_eV: ArrayLike, *, ids: Sequence[str], unusual: ArrayLike
) -> go.Figure:
    """Return predictions (n,) in eV sorted by their mean, with intervals as bars; `unusual` rows get another marker."""
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
            marker={
                "color": colour,
                "symbol": symbol,
                "size": 7,
                "line": {"width": 1.5 if colour == MIND else 0, "color": colour},
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": upper[rows] - mean[rows],
                "arrayminus": mean[rows] - lower[rows],
                "thickness": 1,
                "width": 0,
            },
            customdata=np.stack([np.asarray(ids, dtype=object)[rows], lower[rows], upper[rows]], axis=1),
            hovertemplate=_INTERVAL_HOVER,
        )
    fig.update_layout(template=TEMPLATE, height=340, showlegend=bool(strange.any()), legend=_LEGEND_INSIDE)
    ticks = {"tick0": 1, "dtick": max(1, math.ceil(order.size / 8))}  # whole numbers, about eight of them
    fig.update_xaxes(title="structures, sorted by prediction", showgrid=False, **ticks)
    fig.update_yaxes(title=Quantity.MEAN.axis)
    return fig


def layer_weights(c: ArrayLike, *, layers: Sequence[str], concentration: float = 1.0) -> go.Figure:
    """Return the posterior of the layer weights c, draws (draw, layer), above their Dirichlet prior, one row a layer.

    The prior of one weight of L is Beta(concentration, (L - 1) concentration).
    """
    draws = np.asarray(c, dtype=np.float64)
    n_layers = draws.shape[1]
    grid = np.linspace(0.0, 1.0, _GRID_POINTS)
    prior = beta.pdf(grid.clip(1e-3, 1 - 1e-3), concentration, (n_layers - 1) * concentration)
    densities = [_share_density(draws[:, k], grid) for k in range(n_layers)]
    fig = go.Figure()
    for k, (name, density) in enumerate(zip(layers, densities, strict=True)):
        base, peak = float(n_layers - 1 - k), max(density.max(), prior.max())
        _ridge(fig, grid, base=base, height=0.82 * density / peak, colour=MODEL, name=name, filled=True)
        _ridge(
            fig,
            grid,
            base=base,
            height=0.82 * prior / peak,
            colour=PRIOR,
            name=f"prior, {name}",
            filled=False,
        )
    fig.update_layout(template=TEMPLATE, height=110 + 85 * n_layers)
    fig.update_xaxes(title=f"{Quantity.C.axis} (share, 0 to 1)", range=[0, 1])
    fig.update_yaxes(
        tickmode="array",
        tickvals=list(range(n_layers))[::-1],
        ticktext=list(layers),
        showgrid=False,
        range=[-0.08, n_layers],
    )
    return fig


def draws_density(
    draws: ArrayLike, *, quantity: Quantity, log: bool = False, prior: tuple[ArrayLike, ArrayLike] | None = None
) -> go.Figure:
    """Return the posterior density of a positive scalar from its draws, any shape; `prior` is (values, density).

    With `log` the axis is logarithmic and the density is that of the logarithm.
    """
    values = np.asarray(draws, dtype=np.float64).ravel()
    scale = np.log10(values) if log else values
    grid = np.linspace(*_padded(scale), _GRID_POINTS)
    x = 10**grid if log else grid
    density = _density(scale, grid)
    fig = go.Figure()
    fig.add_scatter(
        x=x,
        y=density,
        mode="lines",
        line={"color": MODEL, "width": 2},
        fill="tozeroy",
        fillcolor=_faint(MODEL),
        hoverinfo="skip",
    )
    if prior is not None:
        fig.add_scatter(
            x=np.asarray(prior[0]),
            y=np.asarray(prior[1]),
            mode="lines",
            line={"color": PRIOR, "width": 2, "dash": "dash"},
            hoverinfo="skip",
        )
    fig.add_vline(x=float(np.median(values)), line={"color": MODEL, "width": 1, "dash": "dot"})
    fig.update_layout(template=TEMPLATE, height=200)
    fig.update_xaxes(title=quantity.axis, type="log" if log else "linear", showgrid=False)
    if log:
        ticks = _log_ticks(x)
        fig.update_xaxes(tickmode="array", tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])
    fig.update_yaxes(visible=False)
    return fig


_INTERVAL_HOVER = "%{customdata[0]}<br>%{y:.2f} eV (%{customdata[1]:.2f} to %{customdata[2]:.2f})<extra></extra>"
_LEGEND_INSIDE = {
    "x": 0.01,
    "y": 0.99,
    "xanchor": "left",
    "yanchor": "top",
    "bgcolor": "rgba(0,0,0,0)",
    "font": {"size": 12},
}


def _ridge(fig: go.Figure, grid: Floats, *, base: float, height: Floats, colour: str, name: str, filled: bool) -> None:
    if filled:
        fig.add_scatter(x=grid, y=np.full_like(grid, base), mode="lines", line={"width": 0}, hoverinfo="skip")
    fig.add_scatter(
        x=grid,
        y=base + height,
        mode="lines",
        name=name,
        line={"color": colour, "width": 2, "dash": "solid" if filled else "dash"},
        fill="tonexty" if filled else None,
        fillcolor=_faint(colour) if filled else None,
        hoverinfo="skip",
    )


def _density(values: Floats, grid: Floats) -> Floats:
    """Return a kernel density on `grid`; draws that do not vary give a narrow peak instead of an error."""
    spread = max(float(values.std()), 1e-3 * float(grid[-1] - grid[0]))
    if values.std() > 1e-12 and values.size > 2:
        return np.asarray(gaussian_kde(values)(grid), dtype=np.float64)
    return np.asarray(np.exp(-0.5 * ((grid - values.mean()) / spread) ** 2), dtype=np.float64)


def _share_density(shares: Floats, grid: Floats) -> Floats:
    """Return a density on the grid of [0, 1]: what leaks over an end is mirrored back."""
    wide = np.linspace(-1.0, 2.0, 3 * (grid.size - 1) + 1)
    density = _density(shares, wide)
    n = grid.size
    return density[n - 1 : 2 * n - 1] + density[n - 1 :: -1][:n] + density[: 2 * n - 3 : -1][:n]


def _log_ticks(x: Floats) -> list[float]:
    """Return the numbers 1, 2, 5 times powers of ten inside the range of x."""
    powers = range(int(np.floor(np.log10(x[0]))), int(np.ceil(np.log10(x[-1]))) + 1)
    return [t for p in powers for m in (1, 2, 5) if x[0] <= (t := float(f"{m}e{p}")) <= x[-1]]


def _padded(values: Floats) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    pad = 0.06 * (high - low) or 0.5
    return low - pad, high + pad


def _faint(colour: str, opacity: float = 0.25) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"
