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
from bandgap.foundation.browsers import find_browser
from bandgap.foundation.errors import InputError
from bandgap.plots.publication import figure_file, figure_numbers, save_figure

RNG = np.random.default_rng(3)
GAPS = RNG.normal(2.0, 0.5, 50)


def parity() -> go.Figure:
    return plots.parity(GAPS, GAPS + 0.1, GAPS - 0.4, GAPS + 0.6, ids=[f"s{k}" for k in range(50)])


@pytest.fixture
def _browser() -> None:
    if find_browser() is None:
        pytest.skip("no browser is installed")


@pytest.mark.usefixtures("_browser")
def test_files_have_the_width_of_the_column_and_text_that_can_be_edited() -> None:
    picture = Image.open(io.BytesIO(figure_file(parity(), "png")))
    assert picture.width == pytest.approx(8.5 / 2.54 * 300, abs=1)
    svg = figure_file(parity(), "svg", width_cm=17.0).decode()
    width = re.search(r'width="([0-9.]+)"', svg)
    assert width and float(width.group(1)) == pytest.approx(17.0 / 2.54 * 96, abs=1)
    assert "observed band gap (eV)" in svg and "in its interval (50)" in svg
    box = re.search(rb"MediaBox ?\[ ?0 0 ([0-9.]+)", figure_file(parity(), "pdf"))
    assert box and float(box.group(1)) == pytest.approx(8.5 / 2.54 * 72, abs=0.5)


def test_without_a_browser_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="or write the figure with its method `write_html`"):
        figure_file(parity(), "png")


def test_numbers_of_a_figure_have_units_ends_of_bars_and_names() -> None:
    table = figure_numbers(parity())
    points = table[table["series"] == "in its interval (50)"]
    np.testing.assert_allclose(points["x: observed band gap (eV)"].astype(float), GAPS)
    np.testing.assert_allclose(points["y lower"], GAPS - 0.4)
    np.testing.assert_allclose(points["y upper"], GAPS + 0.6)
    assert points["label"].tolist() == [f"s{k}" for k in range(50)]


@pytest.mark.usefixtures("_browser")
def test_dollars_in_a_name_are_text() -> None:
    table = pd.DataFrame({"run": ["a $x$", "c & d"], "difference_eV": [-0.2, 0.2]})
    ends = {"lower_eV": [-0.3, 0.1], "upper_eV": [-0.1, 0.3]}
    fig = plots.difference_figure(table.assign(**ends))
    svg = figure_file(fig, "svg").decode()
    assert "a $x$" in svg and "c &amp; d" in svg


@pytest.mark.usefixtures("_browser")
def test_suffix_is_the_format(tmp_path: Path) -> None:
    save_figure(parity(), tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(InputError, match=r"a\.jpg does not end in \.png, \.svg or \.pdf"):
        save_figure(parity(), tmp_path / "a.jpg")
