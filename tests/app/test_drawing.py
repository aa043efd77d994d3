"""Figures are built once for the same content and theme, and again for other content."""

import numpy as np
import pytest

from app.components.shared import frame
from app.components.shared.drawing import drawn
from bandgap import plots

GAPS = np.random.default_rng(0).normal(2.0, 0.5, 4000)


def test_equal_content_is_drawn_once() -> None:
    assert drawn(plots.gap_histogram, GAPS.copy()) is drawn(plots.gap_histogram, GAPS.copy())


def test_changed_number_gives_a_new_figure() -> None:
    changed = GAPS.copy()
    changed[2345] = 9.0  # hashes that sample would miss it
    first = drawn(plots.gap_histogram, GAPS)
    second = drawn(plots.gap_histogram, changed)
    assert max(second.data[0].x) > max(first.data[0].x)


def test_options_count_as_content() -> None:
    inside, outside = (
        drawn(plots.intervals, *[[1.0]] * 3, ids=["a"], unusual=[False], window=(0.0, end))
        for end in (2.0, 3.0)
    )
    assert inside is not outside


def test_themes_do_not_share_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    light = drawn(plots.gap_histogram, GAPS)
    monkeypatch.setattr(frame, "dark", lambda: True)
    dark = drawn(plots.gap_histogram, GAPS)
    colours = [fig.layout.template.layout.font.color for fig in (light, dark)]
    assert colours == [plots.template(dark=theme).layout.font.color for theme in (False, True)]
