"""Predictions with a probability of a metal: intervals, CSV, files, and chunks."""

import csv
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms

from bandgap.evaluation.heldout import rows_of
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.extxyz import interval_numbers
from bandgap.predictions.gap_distribution import GapDistribution
from bandgap.predictions.growing_store import GrowingPrediction
from bandgap.predictions.store import QUANTILES, load_predictions, save_predictions
from bandgap.predictions.table import (
    COLUMNS,
    LEVELS,
    P_METAL,
    Predictions,
    predictions_from_draws,
    read_predictions_csv,
)
from bandgap.structures import as_records

RNG = np.random.default_rng(3)
CENTRES = RNG.normal([0.6, 1.0, 3.0, 2.0], 0.3, (40, 4))
SDS = RNG.uniform(0.2, 0.4, (40, 4))
P = np.array([0.99, 0.3, 0.004, np.nan])  # the last one is refused
GAPS = GapDistribution(CENTRES[:, :3], SDS[:, :3], P[:3])

RECORDS = as_records([Atoms("H", [[0.0, 0.0, float(i)]]) for i in range(4)])


@pytest.fixture(scope="module")
def predictions() -> Predictions:
    return predictions_from_draws(
        ((1 - P) * np.maximum(CENTRES, 0.0))[:, :3],
        SDS[:, :3],
        centres=CENTRES[:, :3],
        ids=["a", "b", "c", "d"],
        files=["x.cif"] * 4,
        formulas=["Cu", "GaAs", "NaCl", ""],
        domain=["ok", "ok", "ok", ""],
        status=["ok", "ok", "ok", "refused"],
        problem=["", "", "", "no atoms"],
        p_metal=P[:3],
    )


def test_stored_quantiles_and_sd_are_those_of_the_gap_distribution(predictions):
    np.testing.assert_array_equal(predictions.quantiles_new[:, :3], GAPS.quantiles(LEVELS))
    np.testing.assert_array_equal(predictions.sd_new_eV[:3], GAPS.sd_eV())
    assert np.isnan(predictions.quantiles_new[:, 3]).all() and np.isnan(predictions.p_metal[3])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.985])
def test_interval_is_that_of_the_gap_distribution(predictions, level):
    lower, upper = predictions.interval(level)
    exact_lower, exact_upper = GAPS.interval(level)
    # between stored quantiles, 0.5 % apart, and steep just above the probability of zero
    np.testing.assert_allclose(lower[:3], exact_lower, atol=0.04)
    np.testing.assert_allclose(upper[:3], exact_upper, atol=0.04)
    assert ((exact_lower == 0) == (lower[:3] == 0)).all()
    assert np.isnan(lower[3]) and np.isnan(upper[3])


def test_metal_has_the_interval_zero_and_credible_intervals_are_those_of_the_mean(predictions):
    assert predictions.interval(0.95)[0][0] == predictions.interval(0.95)[1][0] == 0.0
    lower, upper = predictions.interval(0.9, "credible")
    draws = (1 - P[1]) * np.maximum(CENTRES[:, 1], 0.0)
    np.testing.assert_allclose((lower[1], upper[1]), np.quantile(draws, [0.05, 0.95]))


def test_conformal_interval_begins_at_zero(predictions):
    scores = ConformalScores(tuple(map(str, range(30))), np.linspace(0.1, 4.0, 30))
    labelled = dataclasses.replace(predictions, conformal=scores)
    lower, upper = labelled.interval(0.9, "conformal")
    assert (lower[:2] == 0).all() and lower[2] > 0
    assert (upper[:3] > predictions.mean_eV[:3]).all()


def test_csv_has_the_probability_in_its_last_column(predictions):
    text = predictions.to_csv()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert tuple(rows[0]) == (*COLUMNS, P_METAL)
    assert [row[P_METAL] for row in rows] == ["0.99", "0.3", "0.004", ""]
    frame = read_predictions_csv(text.encode())
    np.testing.assert_array_equal(frame[P_METAL], P)
    without = dataclasses.replace(predictions, p_metal=None)
    assert tuple(without.to_columns()) == COLUMNS


def test_stored_file_and_extended_xyz_keep_the_probability(predictions, tmp_path):
    save_predictions(tmp_path / "q", predictions)
    again = load_predictions(tmp_path / "q")
    np.testing.assert_array_equal(again.p_metal, P)
    np.testing.assert_array_equal(again.quantiles_new, predictions.quantiles_new)
    numbers = interval_numbers(again, level=0.95, kind="prediction")
    assert [row[P_METAL] for row in numbers] == [0.99, 0.3, 0.004]


@pytest.mark.parametrize("has_metals", [True, False])
def test_prediction_in_chunks_is_the_whole_one(predictions, tmp_path: Path, has_metals):
    expected = predictions if has_metals else dataclasses.replace(predictions, p_metal=None)
    nothing = np.zeros(0)
    details = PredictionDetails(
        ("",) * 2,
        np.zeros(2, dtype=np.int64),
        *np.full((2, 2), np.nan),
        np.ones(2, dtype=bool),
        np.zeros(0, dtype=np.int64),
        np.zeros((8, 0), dtype=np.float32),
        nothing,
    )
    growing = GrowingPrediction(tmp_path / "grow", work="w", made_of=str)
    with growing:
        for rows in (np.array([0, 1]), np.array([2, 3])):
            growing.add(rows_of(expected, rows), details, [RECORDS[row] for row in rows])
        growing.finish(tmp_path / "done")
    again = load_predictions(tmp_path / "done" / QUANTILES)
    assert (again.p_metal is not None) == has_metals
    if has_metals:
        np.testing.assert_array_equal(again.p_metal, P)
    np.testing.assert_array_equal(again.quantiles_new, expected.quantiles_new)
    assert (tmp_path / "done" / "predictions.csv").read_text() == expected.to_csv()
