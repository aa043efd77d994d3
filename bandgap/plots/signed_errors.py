"""Figure of signed errors by group."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.plots.style import BASELINE, MIND, MODEL, add_points, bars, faint, finished

_ROWS = 12  # groups in the figure


def signed_error_figure(table: pd.DataFrame) -> go.Figure:
    """Return the signed error of each group with its range of chance about zero.

    The first column of the table has the names of the groups.
    """
    rows = table.head(_ROWS).iloc[::-1]
    names = [
        f"{name} ({count})" for name, count in zip(rows.iloc[:, 0], rows["structures"], strict=True)
    ]
    chance = rows["chance_eV"].fillna(0.0).to_numpy()
    zero = np.zeros(len(rows))
    fig = go.Figure(
        go.Scatter(x=zero, y=names, mode="markers", hoverinfo="skip", marker={"opacity": 0})
    )
    fig.data[0].error_x = bars(zero, -chance, chance, colour=faint(BASELINE, 0.6), thickness=5)
    errors = rows["signed_error_eV"].to_numpy()
    is_known = rows["chance_eV"].notna().to_numpy()
    outside = (np.abs(errors) > chance) & is_known
    for selection, colour, symbol in (
        (~outside, MODEL, "circle"),
        (outside, MIND, "diamond-open"),
    ):
        selected_names = [
            name for name, is_selected in zip(names, selection, strict=True) if is_selected
        ]
        hover = "%{y}: %{x:+.2f} eV<extra></extra>"
        add_points(fig, errors[selection], selected_names, colour, symbol, 9, hovertemplate=hover)
    fig.add_vline(x=0.0, line={"color": BASELINE, "width": 1, "dash": "dot"})
    x = {"title": "predicted less known gap (eV)"}
    y = {"type": "category", "categoryorder": "array", "categoryarray": names, "showgrid": False}
    return finished(fig, height=max(200, 90 + 22 * len(rows)), x=x, y=y)
