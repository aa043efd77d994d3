"""Calibrators: exact factors and scores, what they do to intervals, what is refused,
and the file.
"""

import dataclasses
import json

import numpy as np
import pytest

from bandgap.evaluation.calibrators import (
    FILE,
    fit_calibrator,
    load_calibrator,
    measured_part,
    remove_calibrator,
    save_calibrator,
)
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.predictions.conformal import ConformalScores
from tests.unit.evaluation.test_paired import normal_heldout

RNG = np.random.default_rng(11)
N = 400
GAPS = RNG.normal(9.0, 1.0, N)  # far from zero, where intervals are cut
NARROW = normal_heldout(RNG.normal(0, 0.6, N), 0.3, gaps=GAPS)  # errors twice as large as predicted


def test_variance_scaling_finds_the_factor_and_widens_about_the_mean():
    fitted = fit_calibrator(NARROW, "variance")
    # 5 standard errors, 2 / sqrt(2 x 200) each.
    assert fitted.factor == pytest.approx(2.0, abs=0.35)
    after = fitted.apply(NARROW.predictions)
    np.testing.assert_array_equal(after.mean_eV, NARROW.predictions.mean_eV)
    for before_end, after_end in zip(
        NARROW.predictions.interval(0.9), after.interval(0.9), strict=True
    ):
        mean = after.mean_eV
        np.testing.assert_allclose(after_end - mean, fitted.factor * (before_end - mean))
    np.testing.assert_array_equal(after.quantiles_mean, NARROW.predictions.quantiles_mean)


def test_variance_scaling_does_not_change_conformal_intervals():
    overlapping = dataclasses.replace(
        NARROW.predictions, conformal=ConformalScores(("x",) * 30, np.linspace(0.1, 3, 30))
    )
    after = fit_calibrator(NARROW, "variance").apply(overlapping)
    np.testing.assert_allclose(
        after.interval(0.9, "conformal"), overlapping.interval(0.9, "conformal")
    )


@pytest.mark.parametrize("kind", ["conformal", "variance"])
def test_calibrator_corrects_coverage_on_other_structures(kind):
    fitted = fit_calibrator(NARROW, kind, share=0.5, seed=3)
    assert len(fitted) == fitted.n_test == 200
    assert not set(fitted.ids) & set(measured_part(NARROW, fitted).predictions.ids)
    for change in fitted.changes:
        # coverage after: binomial with 200 structures and the noise of 200 calibration ones, 5 sd
        # of both
        assert abs(change.coverage_after - change.level) < 5 * np.sqrt(
            change.level * (1 - change.level) * 2 / 200
        )
        assert change.width_after_eV > change.width_before_eV
    assert fitted.changes[-1].coverage_before < 0.8


def test_conformal_calibrator_gives_the_interval_of_its_scores():
    fitted = fit_calibrator(NARROW, "conformal", share=0.25)
    lower, upper = fitted.apply(NARROW.predictions).interval(0.95, "conformal")
    k = int(np.ceil(101 * 0.95)) - 1
    expected = np.sort(fitted.scores)[k] * NARROW.predictions.sd_new_eV
    np.testing.assert_allclose((upper - lower) / 2, expected)


@pytest.mark.parametrize(
    ("n", "kind", "share", "level", "text"),
    [
        (
            28,
            "conformal",
            0.5,
            0.95,
            "needs at least 19 to calibrate and 10 to measure: 29 held-out structures",
        ),
        (
            60,
            "conformal",
            0.2,
            0.95,
            "12 to calibrate and 48 to measure it on.*share between 32 and 83 %",
        ),
        (
            100,
            "conformal",
            0.5,
            0.99,
            "A 99 % conformal interval needs at least 99 .* 109 held-out",
        ),
        (25, "variance", 0.5, 0.95, "Variance scaling needs at least 20 .* 30 held-out structures"),
        (100, "variance", 0.95, 0.95, "5 to measure it on"),
        (100, "variance", 1.0, 0.95, "share is 1. Accepted: above 0 and below 1"),
    ],
)
def test_fit_calibrator_too_few_structures_raises_with_needed_number(n, kind, share, level, text):
    with pytest.raises(InputError, match=text):
        fit_calibrator(NARROW.rows(np.arange(n)), kind, share=share, level=level)


@pytest.mark.parametrize("kind", ["conformal", "variance"])
def test_calibrator_survives_saving_and_loading(tmp_path, kind):
    fitted = fit_calibrator(NARROW, kind, seed=9)
    assert load_calibrator(tmp_path) is None
    save_calibrator(tmp_path, fitted)
    assert load_calibrator(tmp_path) == fitted
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    remove_calibrator(tmp_path)
    assert load_calibrator(tmp_path) is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"kind": "platt"},
        {"factor": -1.0},
        {"factor": None},
        {"ids": []},
        {"files": ["x"]},
        {"more": 1},
    ],
    ids=str,
)
def test_load_calibrator_damaged_file_raises_with_remedy(tmp_path, change):
    save_calibrator(tmp_path, fit_calibrator(NARROW, "variance"))
    values = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps(values | change))
    with pytest.raises(
        ArtifactError, match="not readable as a calibrator .* The run itself is not touched"
    ):
        load_calibrator(tmp_path)
