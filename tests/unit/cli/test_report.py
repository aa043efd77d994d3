"""Figures as the terminal shows them."""

import pytest

from bandgap.cli.bars import duration
from bandgap.cli.report import figure_text
from bandgap.evaluation.figure_labels import label


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rmse_eV", "RMSE (eV)"),
        ("coverage_95", "coverage of the 95 % interval"),
        ("width_95_eV", "mean width of the 95 % interval (eV)"),
        ("rhat_max", "R-hat, largest"),
        ("validation_rmse_eV", "validation RMSE (eV)"),
    ],
)
def test_label_of_a_figure_is_words_with_its_unit(name: str, text: str) -> None:
    assert label(name) == text


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
