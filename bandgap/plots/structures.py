"""Figures of structures: one in three dimensions, and the contents of a data set."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.quantities import Quantity
from bandgap.plots.elements import ball_diameter, colour_of, symbol_of
from bandgap.plots.style import BASELINE, LEGEND_INSIDE, MIND, MODEL, TEMPLATE, faint
from bandgap.structures.shapes import Shape

Floats = NDArray[np.float64]

MOST_ELEMENTS = 20  # bars with a name below each
_BINS = 30
_STICK = 0.16  # diameter of a bond, angstrom
_WIDTH_PIXELS = 330.0  # approximate size of a structure in the figure
_EDGES = (
    (0, 1),
    (0, 2),
    (0, 4),
    (1, 3),
    (1, 5),
    (2, 3),
    (2, 6),
    (3, 7),
    (4, 5),
    (4, 6),
    (5, 7),
    (6, 7),
)


def structure_3d(shape: Shape) -> go.Figure:
    """Return atoms, bonds and unit cell of one structure in angstrom; the user can rotate it.

    A bond has the colours of its two atoms. A bond that leaves the cell is drawn as two halves.
    """
    fig = go.Figure()
    _cell(fig, shape)
    numbers = shape.numbers.astype(int)
    order = np.arange(1, numbers.size + 1)
    pixels = _pixels_per_angstrom(shape)
    half_vectors = shape.bond_vectors / 2.0
    for number in np.unique(numbers):
        is_element = numbers == number
        symbol = symbol_of(int(number))
        colour = colour_of(int(number))
        starts, ends = _half_bonds(shape, half_vectors, is_element)
        line = {"color": colour, "width": float(np.clip(_STICK * pixels, 2.0, 12.0))}
        x, y, z = _segments(starts, ends)
        fig.add_scatter3d(
            x=x, y=y, z=z, mode="lines", line=line, hoverinfo="skip", showlegend=False
        )
        x, y, z = shape.positions[is_element].T
        fig.add_scatter3d(
            x=x,
            y=y,
            z=z,
            mode="markers",
            name=symbol,
            marker={
                "size": float(np.clip(ball_diameter(int(number)) * pixels, 3.0, 40.0)),
                "color": colour,
                "opacity": 1.0,
                "line": {"width": 1, "color": BASELINE},
            },
            customdata=order[is_element],
            hovertemplate=f"{symbol}, atom %{{customdata}}<br>%{{x:.2f}} %{{y:.2f}} %{{z:.2f}} "
            "Å<extra></extra>",
        )
    axis = {"visible": False, "showspikes": False}
    camera = {"projection": {"type": "orthographic"}, "eye": {"x": 1.1, "y": 1.3, "z": 0.7}}
    scene = {
        "aspectmode": "data",
        "xaxis": axis,
        "yaxis": axis,
        "zaxis": axis,
        "camera": camera,
        "dragmode": "orbit",
    }
    legend = LEGEND_INSIDE | {"itemsizing": "constant"}
    fig.update_layout(template=TEMPLATE, height=420, scene=scene, showlegend=True, legend=legend)
    return fig


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


def _cell(fig: go.Figure, shape: Shape) -> None:
    if not shape.pbc.any():
        return
    corners = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) @ shape.cell
    x, y, z = _segments(corners[[a for a, _ in _EDGES]], corners[[b for _, b in _EDGES]])
    line = {"color": BASELINE, "width": 2}
    fig.add_scatter3d(x=x, y=y, z=z, mode="lines", name="cell", line=line, hoverinfo="skip")


def _pixels_per_angstrom(shape: Shape) -> float:
    corners = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)]) @ shape.cell
    sides = np.ptp(
        np.concatenate([shape.positions, corners]) if shape.pbc.any() else shape.positions, axis=0
    )
    return _WIDTH_PIXELS / max(float(np.linalg.norm(sides)), 4.0)


def _half_bonds(
    shape: Shape, half_vectors: Floats, selected_atoms: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return starts and ends (half bond, 3) of the halves of bonds at the selected atoms."""
    first = shape.bonds[:, 0].astype(int)
    second = shape.bonds[:, 1].astype(int)
    first_selected = selected_atoms[first]
    second_selected = selected_atoms[second]
    starts = np.concatenate(
        [shape.positions[first[first_selected]], shape.positions[second[second_selected]]]
    )
    ends = starts + np.concatenate([half_vectors[first_selected], -half_vectors[second_selected]])
    return starts, ends


def _segments(starts: Floats, ends: Floats) -> tuple[Floats, Floats, Floats]:
    """Return x, y and z of separate lines: start, end and NaN for each."""
    points = np.stack([starts, ends, np.full_like(starts, np.nan)], axis=1).reshape(-1, 3)
    return points[:, 0], points[:, 1], points[:, 2]
