"""The predictions table: what it says of draws, its intervals, and its way through CSV."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.predictions.conformal import ConformalScores
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.predictions.table import (
    COLUMNS,
    LEVELS,
    Predictions,
    predictions_from_draws,
    read_predictions_csv,
)
from tests.unit.predictions.three_predictions import three_predictions

RNG = np.random.default_rng(17)
DRAWS = RNG.normal(2.0, 0.3, (60, 3))
NOISE = RNG.uniform(0.1, 0.2, 60)


@pytest.fixture
def predictions() -> Predictions:
    return three_predictions()


def test_levels_are_199_steps_of_half_a_percent():
    assert LEVELS.shape == (199,)
    assert (LEVELS[0], LEVELS[4], LEVELS[99], LEVELS[-1]) == (0.005, 0.025, 0.5, 0.995)


def test_predictions_from_draws_summarise_the_mixture(predictions):
    assert predictions.mean_eV[0] == pytest.approx(DRAWS[:, 0].mean())
    assert predictions.sd_mean_eV[0] == pytest.approx(DRAWS[:, 0].std())
    assert predictions.sd_new_eV[0] == pytest.approx(np.sqrt(DRAWS[:, 0].var() + np.mean(NOISE**2)))
    assert np.isnan(predictions.mean_eV[1])
    assert np.all(np.isnan(predictions.quantiles_new[:, 1]))


def test_intervals_cover_new_observations_or_means_by_kind(predictions):
    rng = np.random.default_rng(1)
    new = DRAWS[:, 0] + NOISE * rng.normal(size=(20_000, 60))
    lower, upper = predictions.interval(0.9)
    assert np.mean((new > lower[0]) & (new < upper[0])) == pytest.approx(0.9, abs=0.003)
    lower, upper = predictions.interval(0.9, "credible")
    np.testing.assert_allclose(
        (lower[0], upper[0]), np.quantile(DRAWS[:, 0], [0.05, 0.95]), rtol=1e-12
    )


@pytest.mark.parametrize("level", [0.01, 0.333, 0.9, 0.9876, 0.99])
def test_interval_between_stored_levels_is_exact_for_a_normal_distribution(level):
    row = predictions_from_draws(
        [[3.0]],
        [0.7],
        ids=["a"],
        files=[""],
        formulas=[""],
        domain=["ok"],
        status=["ok"],
        problem=[""],
    )
    lower, upper = row.interval(level)
    half = 0.7 * norm.ppf(0.5 + level / 2)
    np.testing.assert_allclose((lower[0], upper[0]), (3 - half, 3 + half), atol=1e-8)


def test_interval_between_stored_levels_is_close_for_a_skewed_mixture():
    rng = np.random.default_rng(2)
    means = rng.gamma(2.0, 0.3, (200, 1))
    sds = np.full(200, 0.1)
    row = predictions_from_draws(
        means, sds, ids=["a"], files=[""], formulas=[""], domain=["ok"], status=["ok"], problem=[""]
    )
    lower, upper = row.interval(0.953)
    exact = mixture_quantiles(means, sds, [0.0235, 0.9765])[:, 0]
    np.testing.assert_allclose((lower[0], upper[0]), exact, atol=0.01)


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.995, "level is 0.995. Accepted: 0.01 to 0.99"),
        (0.0, "level is 0. Accepted"),
        (95, "For 95 % write 0.95."),
        (np.nan, "level is nan"),
    ],
)
def test_interval_level_that_is_not_supported_is_refused(predictions, level, text):
    with pytest.raises(ConfigError, match=text):
        predictions.interval(level)


def test_conformal_interval_is_mean_plus_minus_the_ranked_score_times_sd(predictions):
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 20.0))
    labelled = dataclasses.replace(
        predictions, conformal=ConformalScores(tuple("abcdefghijklmnopqrs"), scores)
    )
    lower, upper = labelled.interval(0.9, "conformal")  # the 18th of 19
    np.testing.assert_allclose(
        lower, np.maximum(predictions.mean_eV - 18.0 * predictions.sd_new_eV, 0.0)
    )
    np.testing.assert_allclose(upper, predictions.mean_eV + 18.0 * predictions.sd_new_eV)
    frame = labelled.to_frame(0.9, "conformal")
    assert set(frame["interval"]) == {"conformal"} and frame["sd_eV"][0] == predictions.sd_new_eV[0]
    assert np.isnan(lower[1])  # refused


def test_to_frame_has_one_row_for_every_input_and_the_named_columns(predictions):
    frame = predictions.to_frame()
    assert tuple(frame.columns) == COLUMNS
    assert COLUMNS[:12] == (
        *(
            "id",
            "file",
            "formula",
            "mean_eV",
            "sd_eV",
            "lower_eV",
            "upper_eV",
            "level",
            "interval",
            "domain",
        ),
        *("status", "problem"),
    )
    assert list(frame["id"]) == ["00011", "=cmd()", "-3"]
    assert frame.loc[1, ["mean_eV", "sd_eV", "lower_eV", "upper_eV"]].isna().all()
    assert set(frame["level"]) == {0.95}
    assert set(frame["interval"]) == {"prediction"}


def test_to_csv_and_back_gives_the_same_table(predictions, tmp_path):
    path = tmp_path / "predictions.csv"
    text = predictions.to_csv(path, level=0.9)
    assert path.read_bytes() == text.encode()
    expected = predictions.to_frame(0.9)
    pd.testing.assert_frame_equal(read_predictions_csv(path), expected, atol=5e-7, rtol=0)
    pd.testing.assert_frame_equal(read_predictions_csv(text.encode()), expected, atol=5e-7, rtol=0)


def test_to_csv_defuses_text_and_never_numbers(predictions):
    lines = predictions.to_csv().splitlines()
    assert any(line.startswith("'=cmd(),") for line in lines)
    assert any(line.startswith("'-3,") for line in lines)
    low = predictions_from_draws(
        [[-0.1]],
        [1.0],
        ids=["a"],
        files=[""],
        formulas=[""],
        domain=["ok"],
        status=["ok"],
        problem=[""],
    )
    assert ",-0.1,1.0,0.0,1.859964,0.95," in low.to_csv()


def test_read_predictions_csv_excel_byte_order_mark_is_ignored(predictions):
    frame = read_predictions_csv(
        b"\xef\xbb\xbf" + predictions.to_csv().replace("\n", "\r\n").encode()
    )
    assert frame["id"][0] == "00011"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "not a readable CSV table", id="empty"),
        pytest.param(b"\xff\xfe\x00", "not a readable CSV table", id="binary"),
        pytest.param(
            b"id,gap\n1,2\n",
            "column 'file' is missing. Accepted: columns id, file,",
            id="another-table",
        ),
        pytest.param(
            (",".join(COLUMNS) + "\na,b\n").encode(), "row 2: 2 cells, expected 13", id="cut-off"
        ),
        pytest.param(
            (",".join(COLUMNS) + "\na,b,C,1.0 eV,,,,,,,,,\n").encode(),
            "column 'mean_eV': could not convert string to float: '1.0 eV'",
            id="text-in-number",
        ),
    ],
)
def test_read_predictions_csv_unusable_file_is_refused(data, text):
    with pytest.raises(InputError, match=text):
        read_predictions_csv(data)


def test_read_predictions_csv_absent_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.csv: not a readable CSV table"):
        read_predictions_csv(tmp_path / "nothing.csv")


def test_predictions_of_no_structures_make_an_empty_table():
    nothing = predictions_from_draws(
        np.empty((5, 0)),
        np.ones(5),
        ids=[],
        files=[],
        formulas=[],
        domain=[],
        status=[],
        problem=[],
    )
    assert len(nothing.to_frame()) == 0
    assert tuple(read_predictions_csv(nothing.to_csv().encode()).columns) == COLUMNS


@pytest.mark.parametrize("level", [0.01, 0.333, 0.95, 0.99])
def test_only_the_quantiles_of_one_level_are_computed_far_from_the_training_set(level):
    """Their draws are 8 eV apart, the noise is 0.2 eV."""
    far = {name: ["x", "y"] for name in ("ids", "files", "formulas", "domain", "problem")}
    draws = RNG.normal(3.0, 8.0, (300, 2))
    noise = RNG.uniform(0.1, 0.2, 300)
    full = predictions_from_draws(draws, noise, **far, status=["ok"] * 2)
    part = predictions_from_draws(draws, noise, **far, status=["ok"] * 2, level=level)
    np.testing.assert_allclose(part.interval(level), full.interval(level), rtol=0, atol=1e-8)
    assert np.isfinite(part.quantiles_new).sum(axis=0).max() <= 4
    assert np.isfinite(full.quantiles_new).all()
