"""Figures as the terminal shows them."""

import pytest

from bandgap.cli.bars import duration
from bandgap.cli.report import figure_text, print_figures


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("mae_eV", 0.30049, "0.300"),
        ("coverage_95", 0.949, "95 %"),
        ("seconds", 61.0, "1 min 1 s"),
        ("n", 2987, "2,987"),
        ("ess_min", None, "-"),
    ],
)
def test_figure_has_three_digits_or_a_unit(name: str, value: float, text: str) -> None:
    assert figure_text(name, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 0 s"), (7260, "2 h 1 min")]
)
def test_duration_has_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_coverage_of_few_structures_is_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    print_figures({"coverage_95": 1.0, "n": 1})
    assert "coverage of the 95 % interval  1 of 1, too few to judge" in capsys.readouterr().out
    print_figures({"coverage_95": 0.95, "n": 20})
    assert "coverage of the 95 % interval  95 %" in capsys.readouterr().out
