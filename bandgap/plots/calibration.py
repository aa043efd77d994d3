"""Figures on the calibration of intervals.

Each draws one table of `bandgap.evaluation.reliability`.
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.plots.style import (
    BASELINE,
    GOOD,
    LEGEND_ABOVE,
    MIND,
    MODEL,
    TEMPLATE,
    add_line,
    add_points,
    bars,
    faint,
    padded,
)

_HEIGHT = 340


def coverage_figure(
    table: pd.DataFrame, *, level: float, after: pd.DataFrame | None = None
) -> go.Figure:
    """Return coverage against level with the diagonal and the band of chance.

    `after` is the table of the calibrated intervals.
    """
    fig = go.Figure()
    x = np.concatenate([table["level"], table["level"][::-1]])
    y = np.concatenate([table["chance_lower"], table["chance_upper"][::-1]])
    fig.add_scatter(
        x=x, y=y, fill="toself", fillcolor=faint(BASELINE, 0.2), line={"width": 0}, hoverinfo="skip"
    )
    fig.data[0].update(name="chance alone", mode="lines")
    add_line(fig, [0, 1], [0, 1], BASELINE, width=1, hoverinfo="skip", showlegend=False)
    hover = "level %{x:.0%}<br>coverage %{y:.0%}<extra></extra>"
    dash = "dot" if after is not None else "solid"
    name = "as trained" if after is not None else "intervals"
    add_line(
        fig,
        table["level"],
        table["coverage"],
        MODEL,
        name=name,
        line_dash=dash,
        hovertemplate=hover,
    )
    final_table, colour = (table, MODEL) if after is None else (after, GOOD)
    if after is not None:
        add_line(
            fig, after["level"], after["coverage"], GOOD, name="calibrated", hovertemplate=hover
        )
    nearest_row = int(np.argmin(np.abs(final_table["level"].to_numpy() - level)))
    point = final_table.iloc[[nearest_row]]
    style = {"name": "at the level", "hovertemplate": hover, "showlegend": False}
    add_points(fig, point["level"], point["coverage"], colour, "diamond", 10, **style)
    fig.update_layout(template=TEMPLATE, height=_HEIGHT, showlegend=True, **LEGEND_ABOVE)
    fig.update_xaxes(title="level of the interval", range=[0, 1.02], dtick=0.2, tickformat=".0%")
    fig.update_yaxes(title="gaps in their interval", range=[0, 1.02], dtick=0.2, tickformat=".0%")
    return fig


def spread_figure(table: pd.DataFrame) -> go.Figure:
    """Return RMSE against predicted standard deviation (eV) by group, with the range of chance as
    bars.
    """
    expected = table["sd_eV"]
    low = table["chance_lower_eV"]
    high = table["chance_upper_eV"]
    chance = bars(expected, low, high, colour=faint(BASELINE, 0.6), thickness=5)
    fig = go.Figure()
    add_line(
        fig,
        expected,
        expected,
        BASELINE,
        width=1,
        hoverinfo="skip",
        name="as predicted",
        error_y=chance,
    )
    inside = (table["rmse_eV"] >= low) & (table["rmse_eV"] <= high)
    hover = "predicted %{x:.2f} eV<br>found %{y:.2f} eV<br>%{customdata} structures<extra></extra>"
    for selection, colour, symbol, name in (
        (inside, MODEL, "circle", "within chance"),
        (~inside, MIND, "diamond-open", "beyond chance"),
    ):
        rows = table[selection]
        counts = {"customdata": rows["structures"], "hovertemplate": hover}
        add_points(fig, rows["sd_eV"], rows["rmse_eV"], colour, symbol, 9, name=name, **counts)
    fig.update_layout(template=TEMPLATE, height=_HEIGHT, showlegend=True, **LEGEND_ABOVE)
    fig.update_xaxes(title="predicted standard deviation (eV)", range=list(_spread_out(expected)))
    fig.update_yaxes(title="RMSE (eV)", rangemode="tozero")
    return fig


def _spread_out(values: "pd.Series[float]") -> tuple[float, float]:
    """Return a range slightly wider than that of the values, from half to 1.5 times them if all are
    equal.
    """
    low = float(values.min())
    high = float(values.max())
    if high - low > 1e-6 * abs(high):
        return padded(np.asarray(values, dtype=np.float64))
    return 0.5 * low, 1.5 * high
