"""Figures for a paper: size, formats, the same points as on the screen, and their numbers."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from PIL import Image

from bandgap import plots
from bandgap.foundation.errors import InputError
from bandgap.foundation.quantities import Quantity
from bandgap.plots.publication import figure_file, figure_numbers, save_figure

RNG = np.random.default_rng(3)
GAPS = RNG.normal(2.0, 0.5, 50)
SHARES = RNG.dirichlet(np.ones(3), 60)
COVERAGE = pd.DataFrame(
    {
        "level": np.linspace(0.05, 0.95, 19),
        "coverage": np.linspace(0.05, 0.9, 19),
        "chance_lower": np.linspace(0.0, 0.9, 19),
        "chance_upper": np.linspace(0.1, 1.0, 19),
    }
)
PIT = pd.DataFrame(
    {
        "from": [0.0, 0.5],
        "to": [0.5, 1.0],
        "structures": [4, 6],
        "chance_lower": [2, 2],
        "expected": [5, 5],
        "chance_upper": [8, 8],
    }
)


def parity() -> go.Figure:
    return plots.parity(GAPS, GAPS + 0.1, GAPS - 0.4, GAPS + 0.6, ids=[f"s{k}" for k in range(50)])


FIGURES = {
    "parity": parity(),
    "intervals": plots.intervals(
        GAPS, GAPS - 0.3, GAPS + 0.3, ids=[f"s{k}" for k in range(50)], unusual=GAPS > 2.5
    ),
    "gap histogram": plots.gap_histogram(GAPS),
    "sizes": plots.size_histogram([3, 12, 40]),
    "elements": plots.element_counts({"C": 9, "O": 4}, n=10),
    "distances": plots.distance_percentiles([0.1, 0.5, 0.99], far=0.95),
    "coverage": plots.coverage_figure(COVERAGE, level=0.95),
    "PIT": plots.pit_figure(PIT),
    "layer weights": plots.layer_weights(SHARES, layers=["1", "2", "output"], prior_draws=SHARES),
    "ternary": plots.ternary(SHARES, layers=["1", "2", "output"]),
    "scales": plots.layer_scales(SHARES, layers=["1", "2", "output"], title="scale", prior=SHARES),
    "density": plots.draws_density(GAPS, quantity=Quantity.TAU, log=True),
    "features": plots.feature_changes([0.1, -0.2], [0.05, 0.05], [0.2, 0.9], features=[1, 2]),
    "validation": plots.validation_curve([0.1, 1.0], [2.0, 1.5], name="strength", selected=1.0),
    "methods": plots.method_weights([0.75, 0.25], methods=["trees", "ridge"]),
    "traces": plots.traces(RNG.normal(size=(2, 50)), label="tau"),
    "ranks": plots.rank_plot(RNG.normal(size=(2, 50))),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_redrawn_at_its_width(name: str) -> None:
    picture = Image.open(io.BytesIO(figure_file(FIGURES[name], "png", width_cm=8.5)))
    assert picture.width == pytest.approx(8.5 / 2.54 * 300, abs=1)
    pixels = np.asarray(picture.convert("L"))
    assert (pixels < 250).mean() > 0.005  # it is not empty


@pytest.mark.parametrize("width_cm", [8.5, 17.0])
def test_vector_files_have_the_width_and_text_that_can_be_edited(width_cm: float) -> None:
    svg = figure_file(parity(), "svg", width_cm=width_cm).decode()
    width = re.search(r'width="([0-9.]+)pt"', svg)
    assert width and float(width.group(1)) == pytest.approx(width_cm / 2.54 * 72, abs=0.1)
    assert "observed band gap (eV)" in svg and "in its interval (50)" in svg
    pdf = figure_file(parity(), "pdf", width_cm=width_cm)
    box = re.search(rb"MediaBox \[ 0 0 ([0-9.]+)", pdf)
    assert box and float(box.group(1)) == pytest.approx(width_cm / 2.54 * 72, abs=0.1)


def test_numbers_of_a_figure_have_units_ends_of_bars_and_names() -> None:
    table = figure_numbers(parity())
    points = table[table["series"] == "in its interval (50)"]
    np.testing.assert_allclose(points["x: observed band gap (eV)"].astype(float), GAPS)
    np.testing.assert_allclose(points["y lower"], GAPS - 0.4)
    np.testing.assert_allclose(points["y upper"], GAPS + 0.6)
    assert points["label"].tolist() == [f"s{k}" for k in range(50)]


def test_dollars_and_markup_in_a_name_are_text() -> None:
    fig = plots.method_weights([0.6, 0.4], methods=["a $x$ <b>", "c & d"])
    svg = figure_file(fig, "svg").decode()
    assert "a $x$ &lt;b&gt;" in svg and "c &amp; d" in svg


def test_suffix_is_the_format(tmp_path: Path) -> None:
    save_figure(parity(), tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"a\.jpg does not end in \.png, \.svg or \.pdf"):
        save_figure(parity(), tmp_path / "a.jpg")


def test_figure_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="of the kind scatter3d cannot be redrawn"):
        figure_file(go.Figure(go.Scatter3d(x=[0], y=[0], z=[0])), "png")
