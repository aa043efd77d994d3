"""Figures that say whether intervals hold what they state; each draws one table of `bandgap.evaluation.reliability`."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.plots.style import BASELINE, GOOD, LEGEND_ABOVE, MIND, MODEL, TEMPLATE, bars, faint, marker, padded

_HEIGHT = 340
_SLICES = 20  # rows of a figure of slices; the table has them all


def coverage_figure(table: pd.DataFrame, *, level: float, after: pd.DataFrame | None = None) -> go.Figure:
    """Return coverage against level with the diagonal and the band of chance; `after` is the same once calibrated."""
    fig = go.Figure()
    x = np.concatenate([table["level"], table["level"][::-1]])
    y = np.concatenate([table["chance_lower"], table["chance_upper"][::-1]])
    fig.add_scatter(x=x, y=y, fill="toself", fillcolor=faint(BASELINE, 0.2), line={"width": 0}, hoverinfo="skip")
    fig.data[0].update(name="chance alone", mode="lines")
    fig.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": BASELINE, "width": 1}, hoverinfo="skip")
    fig.data[1].update(showlegend=False)
    hover = "level %{x:.0%}<br>holds %{y:.0%}<extra></extra>"
    dash = "dot" if after is not None else "solid"
    name = "as trained" if after is not None else "intervals"
    fig.add_scatter(x=table["level"], y=table["coverage"], mode="lines", name=name, hovertemplate=hover)
    fig.data[2].update(line={"color": MODEL, "width": 2, "dash": dash})
    shown, colour = (table, MODEL) if after is None else (after, GOOD)
    if after is not None:
        fig.add_scatter(x=after["level"], y=after["coverage"], mode="lines", name="calibrated", hovertemplate=hover)
        fig.data[3].update(line={"color": GOOD, "width": 2})
    near = int(np.argmin(np.abs(shown["level"].to_numpy() - level)))
    point = shown.iloc[[near]]
    fig.add_scatter(x=point["level"], y=point["coverage"], mode="markers", hovertemplate=hover, showlegend=False)
    fig.data[-1].update(marker=marker(colour, "diamond", 10), name="at the level")
    fig.update_layout(template=TEMPLATE, height=_HEIGHT, showlegend=True, **LEGEND_ABOVE)
    fig.update_xaxes(title="level of the interval", range=[0, 1.02], dtick=0.2, tickformat=".0%")
    fig.update_yaxes(title="gaps in their interval", range=[0, 1.02], dtick=0.2, tickformat=".0%")
    return fig


def pit_figure(table: pd.DataFrame) -> go.Figure:
    """Return the PIT histogram with the range of chance of every bin."""
    middle, width = (table["from"] + table["to"]) / 2.0, table["to"] - table["from"]
    fig = go.Figure(go.Bar(x=middle, y=table["structures"], width=0.94 * width, marker={"color": MODEL}))
    fig.data[0].hovertemplate = "%{x:.2f}: %{y} structures<extra></extra>"
    for name, dash in (("chance_lower", "dot"), ("expected", "solid"), ("chance_upper", "dot")):
        line = {"color": BASELINE, "width": 1.5, "dash": dash}
        fig.add_scatter(x=[0, 1], y=[table[name].iloc[0]] * 2, mode="lines", line=line, hoverinfo="skip")
    fig.update_layout(template=TEMPLATE, height=_HEIGHT)
    fig.update_xaxes(title="PIT of the known gap (0 to 1)", range=[0, 1])
    fig.update_yaxes(title="structures", rangemode="tozero")
    return fig


def width_figure(table: pd.DataFrame) -> go.Figure:
    """Return absolute error against interval width (eV); above the line of half the width a gap is outside."""
    most = _spread_out(table["width_eV"])[1]
    fig = go.Figure(go.Scatter(x=[0, most], y=[0, most / 2.0], mode="lines", hoverinfo="skip", showlegend=False))
    fig.data[0].line = {"color": BASELINE, "width": 1}
    for inside, colour, symbol, name in (
        (True, MODEL, "circle", "in its interval"),
        (False, MIND, "diamond-open", "outside its interval"),
    ):
        own = table[table["inside"] == inside]
        fig.add_scatter(x=own["width_eV"], y=own["error_eV"], mode="markers", name=f"{name} ({len(own)})")
        fig.data[-1].update(
            marker=marker(colour, symbol, 6),
            customdata=own[["id", "formula"]].to_numpy(),
            hovertemplate="%{customdata[0]} %{customdata[1]}<br>width %{x:.2f} eV<br>error %{y:.2f} eV<extra></extra>",
        )
    fig.update_layout(template=TEMPLATE, height=_HEIGHT, showlegend=True, **LEGEND_ABOVE)
    low, high = _spread_out(table["width_eV"])
    fig.update_xaxes(title="width of the interval (eV)", range=[max(0.0, low), high])
    fig.update_yaxes(title="absolute error (eV)", range=[0, 1.15 * max(float(table["error_eV"].max()), high / 2.0)])
    return fig


def spread_figure(table: pd.DataFrame) -> go.Figure:
    """Return RMSE against predicted standard deviation (eV) by group, with the range of chance as bars."""
    expected = table["sd_eV"]
    fig = go.Figure(go.Scatter(x=expected, y=expected, mode="lines", hoverinfo="skip", name="as predicted"))
    fig.data[0].update(
        line={"color": BASELINE, "width": 1},
        error_y=bars(
            expected, table["chance_lower_eV"], table["chance_upper_eV"], colour=faint(BASELINE, 0.6), thickness=5
        ),
    )
    inside = (table["rmse_eV"] >= table["chance_lower_eV"]) & (table["rmse_eV"] <= table["chance_upper_eV"])
    for chosen, colour, symbol, name in (
        (inside, MODEL, "circle", "within chance"),
        (~inside, MIND, "diamond-open", "beyond chance"),
    ):
        own = table[chosen]
        fig.add_scatter(x=own["sd_eV"], y=own["rmse_eV"], mode="markers", name=name, customdata=own["structures"])
        fig.data[-1].update(
            marker=marker(colour, symbol, 9),
            hovertemplate="predicted %{x:.2f} eV<br>found %{y:.2f} eV<br>%{customdata} structures<extra></extra>",
        )
    fig.update_layout(template=TEMPLATE, height=_HEIGHT, showlegend=True, **LEGEND_ABOVE)
    fig.update_xaxes(title="predicted standard deviation (eV)", range=list(_spread_out(expected)))
    fig.update_yaxes(title="RMSE (eV)", rangemode="tozero")
    return fig


def slices_figure(table: pd.DataFrame, *, level: float) -> go.Figure:
    """Return coverage by element or formula (first column) with the range of chance; counts stand at the names."""
    rows = table.head(_SLICES).iloc[::-1]
    names = [f"{name} ({count})" for name, count in zip(rows.iloc[:, 0], rows["structures"], strict=True)]
    middle = np.full(len(rows), level)
    fig = go.Figure(go.Scatter(x=middle, y=names, mode="markers", hoverinfo="skip", marker={"opacity": 0}))
    chance = bars(middle, rows["chance_lower"], rows["chance_upper"], colour=faint(BASELINE, 0.6), thickness=5)
    fig.data[0].error_x = chance
    within = ((rows["coverage"] >= rows["chance_lower"]) & (rows["coverage"] <= rows["chance_upper"])).to_numpy()
    for chosen, colour, symbol in ((within, MODEL, "circle"), (~within, MIND, "diamond-open")):
        fig.add_scatter(
            x=rows["coverage"][chosen],
            y=[name for name, own in zip(names, chosen, strict=True) if own],
            mode="markers",
            marker=marker(colour, symbol, 9),
            hovertemplate="%{y}: %{x:.0%}<extra></extra>",
        )
    fig.add_vline(x=level, line={"color": BASELINE, "width": 1, "dash": "dot"})
    fig.update_layout(template=TEMPLATE, height=max(200, 90 + 22 * len(rows)))
    least = float(min(rows["coverage"].min(), rows["chance_lower"].min()))
    fig.update_xaxes(title="gaps in their interval", tickformat=".0%", range=[max(-0.02, least - 0.06), 1.03])
    fig.update_yaxes(type="category", categoryorder="array", categoryarray=names, showgrid=False)
    return fig


def _spread_out(values: "pd.Series[float]") -> tuple[float, float]:
    """Return a range a little wider than that of the values; as wide as their size where they are all the same."""
    low, high = float(values.min()), float(values.max())
    return padded(np.asarray(values, dtype=np.float64)) if high - low > 1e-6 * abs(high) else (0.5 * low, 1.5 * high)
