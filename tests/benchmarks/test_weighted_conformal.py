"""Weighted conformal half-widths: their definition, known weights, and estimated ones."""

import numpy as np
import pytest

from benchmarks.weighted_conformal import (
    ShiftBenchmark,
    log_density_ratio,
    log_odds_ratio,
    run_shift,
    weighted_half_widths,
)


def test_half_width_is_the_quantile_of_the_weighted_scores_by_a_plain_loop() -> None:
    random = np.random.default_rng(1)
    scores, weights = random.exponential(size=(2, 40))
    for test_weight in (0.0, 0.5, 1.5, 5.0):
        shares = np.append(weights, test_weight) / (weights.sum() + test_weight)
        expected = np.inf
        for score in sorted(scores):
            if shares[:-1][scores <= score].sum() >= 0.9:
                expected = score
                break
        actual = weighted_half_widths(scores, weights, np.array([test_weight]), level=0.9)
        assert actual[0] == expected


def test_known_weights_give_the_level_back_under_a_shift() -> None:
    """Scores grow with x, and test structures have larger x. The ratio of normals is exp(x - 1/2).

    The coverage of 300 sets of 200 has a standard error below 0.5 points.
    """
    random = np.random.default_rng(2)
    ordinary, weighted = [], []
    for _ in range(300):
        x = random.normal(size=200)
        shifted = random.normal(1.0, 1.0, size=50)
        scores = np.exp(0.5 * x) * random.exponential(size=200)
        test_scores = np.exp(0.5 * shifted) * random.exponential(size=50)
        equal = weighted_half_widths(scores, np.ones(200), np.ones(50), level=0.9)
        half_widths = weighted_half_widths(scores, np.exp(x), np.exp(shifted), level=0.9)
        ordinary.append(np.mean(test_scores <= equal))
        weighted.append(np.mean(test_scores <= half_widths))
    assert np.mean(ordinary) < 0.86
    assert 0.89 < np.mean(weighted) < 0.93


@pytest.mark.parametrize("estimate", [log_density_ratio, log_odds_ratio])
def test_estimated_ratio_of_two_normals_follows_the_true_one(estimate) -> None:
    random = np.random.default_rng(3)
    fitted = random.normal(size=(250, 3))
    batch = random.normal([1.0, 0.0, 0.0], 1.0, size=(250, 3))
    rows = random.normal([0.5, 0.0, 0.0], 1.0, size=(200, 3))
    actual = estimate(fitted, batch, rows, seed=0)
    assert np.corrcoef(actual, rows[:, 0] - 0.5)[0, 1] > 0.9


@pytest.mark.slow
def test_figures_of_the_demo_have_both_sides_on_the_same_structures(tmp_path) -> None:
    config = ShiftBenchmark(60, 60, 60, 60, shares=(0.1,), seeds=(0,))
    (figures,) = run_shift("demo", tmp_path, config)
    assert figures["n"] == figures["n_calibration"] == figures["n_test"] == 60
    assert set(figures["intervals"]) == {"ordinary", "flows", "classifier"}
    for of_weights in figures["intervals"].values():
        assert 0.0 <= of_weights["coverage"] <= 1.0
        assert 1.0 <= of_weights["effective_n"] <= 60.0 + 1e-9
    assert figures["intervals"]["ordinary"]["effective_n"] == pytest.approx(60)
