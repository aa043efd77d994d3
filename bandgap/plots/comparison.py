"""Figures that compare runs (`bandgap.evaluation.run_tables`) and methods in one run."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from bandgap.plots.style import (
    BASELINE,
    GOOD,
    MIND,
    TEMPLATE,
    bars,
    marker,
    padded,
    plain,
)


def difference_figure(table: pd.DataFrame) -> go.Figure:
    """Return differences in RMSE to a baseline (eV) with intervals, one row for each run.

    Negative is better.
    """
    rows = table.dropna(subset=["difference_eV"]).iloc[::-1].reset_index(drop=True)
    better = rows["upper_eV"] < 0
    worse = rows["lower_eV"] > 0
    fig = go.Figure()
    for selection, colour, symbol, name in (
        (better, GOOD, "circle", "better"),
        (worse, MIND, "diamond", "worse"),
        (~better & ~worse, BASELINE, "circle-open", "no difference that this test set can show"),
    ):
        rows_of_group = rows[selection]
        fig.add_scatter(
            x=rows_of_group["difference_eV"], y=rows_of_group.index, mode="markers", name=name
        )
        fig.data[-1].update(
            marker=marker(colour, symbol, 10),
            error_x=bars(
                rows_of_group["difference_eV"],
                rows_of_group["lower_eV"],
                rows_of_group["upper_eV"],
                colour=colour,
                thickness=2,
            ),
            customdata=np.stack(
                [plain(rows_of_group["run"]), rows_of_group["lower_eV"], rows_of_group["upper_eV"]],
                axis=1,
            ),
            hovertemplate="%{customdata[0]}<br>%{x:+.3f} eV (%{customdata[1]:+.3f} to "
            "%{customdata[2]:+.3f})"
            "<extra></extra>",
        )
    label_position = {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }
    names = [
        label_position | {"y": k + 0.22, "text": run} for k, run in enumerate(plain(rows["run"]))
    ]
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "paper"}
    zero |= {"line": {"color": BASELINE, "width": 1}}
    fig.update_layout(
        template=TEMPLATE, height=90 + 60 * len(rows), annotations=names, shapes=[zero]
    )
    ends = padded(np.append(rows[["lower_eV", "upper_eV"]].to_numpy().ravel(), 0.0))
    fig.update_xaxes(title="difference in RMSE (eV)", range=list(ends))
    fig.update_yaxes(visible=False, range=[-0.5, len(rows) - 0.3])
    return fig
