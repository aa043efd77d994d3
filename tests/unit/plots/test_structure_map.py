"""The map of structures and the figure of the error against the number of labels."""

import time

import numpy as np
import pandas as pd
import pytest

from bandgap.plots import BASELINE, MODEL, error_by_labels_figure, structure_map_figure
from bandgap.plots.style import faint

TITLES = ("first component", "second component")


def test_sets_have_their_colours_and_points_carry_their_rows() -> None:
    sets = ["held out", "learned from", "held out", "elsewhere"]
    fig = structure_map_figure(
        range(4),
        range(4),
        rows=[7, 8, 9, 10],
        labels=["<b>a", "b", "c", "d"],
        titles=TITLES,
        sets=sets,
    )
    assert [trace.name for trace in fig.data] == [
        "learned from (1)",
        "held out (2)",
        "elsewhere (1)",
    ]
    assert [list(trace.customdata) for trace in fig.data] == [[8], [7, 9], [10]]
    assert fig.data[0].marker.color == faint(BASELINE, 0.75)
    assert fig.data[1].marker.color == faint(MODEL, 0.75)
    assert fig.data[1].text[0] == "&lt;b&gt;a"


@pytest.mark.parametrize(
    ("values", "scale", "least"),
    [([1.0, 2.0, 3.0], "viridis", None), ([-1.0, 0.5, 3.0], "rdbu", -3)],
)
def test_scale_of_signed_numbers_is_centred_at_zero(values, scale, least) -> None:
    fig = structure_map_figure(
        range(3), range(3), rows=range(3), labels=list("abc"), titles=TITLES, values=values
    )
    from plotly.colors import get_colorscale

    marker = fig.data[0].marker
    assert [colour for _, colour in marker.colorscale] == [c for _, c in get_colorscale(scale)]
    assert marker.cmin == least


def test_ten_thousand_points_are_drawn_by_webgl_within_half_a_second() -> None:
    n = 10_000
    x, y, values = np.random.default_rng(0).normal(size=(3, n))
    started = time.perf_counter()
    fig = structure_map_figure(
        x, y, rows=range(n), labels=[f"s{k}" for k in range(n)], titles=TITLES, values=values
    )
    text = fig.to_json()
    assert time.perf_counter() - started < 0.5
    assert fig.data[0].type == "scattergl"
    assert len(text) < 2_000_000


def test_diagonal_gives_equal_axes() -> None:
    fig = structure_map_figure(
        [1, 2],
        [1, 4],
        rows=[0, 1],
        labels=["a", "b"],
        titles=TITLES,
        values=[0, 1],
        is_diagonal=True,
    )
    assert fig.layout.xaxis.range == fig.layout.yaxis.range
    assert fig.layout.yaxis.scaleanchor == "x"


def test_law_is_dotted_beyond_the_labels_of_the_run() -> None:
    law = pd.DataFrame({"n": [50, 100, 150, 200], "kind": "power law", "rmse_eV": 0.3})
    law["lower_eV"], law["upper_eV"] = 0.2, 0.4
    fits = law.head(2).assign(kind="fit")
    fig = error_by_labels_figure(pd.concat([fits, fits.assign(kind="mean"), law]), n=100)
    lines = {trace.line.dash: list(trace.x) for trace in fig.data if trace.line.dash}
    assert lines == {"solid": [50, 100], "dot": [100, 150, 200]}
