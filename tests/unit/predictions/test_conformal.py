"""Split-conformal intervals: ranks and coverage that are exact, whatever the model, and what too
few scores give.
"""

import numpy as np
import pytest

from bandgap.predictions.conformal import (
    ConformalScores,
    conformal_quantile,
    highest_percent,
    scores_of,
    smallest_calibration_set,
    too_few,
)


@pytest.mark.parametrize(
    ("level", "n"),
    [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.975, 39), (0.99, 99), (0.999, 999), (0.3, 1)],
)
def test_smallest_calibration_set_follows_its_formula(level, n):
    assert smallest_calibration_set(level) == n
    scores = np.arange(n, dtype=float)
    assert conformal_quantile(scores, level) <= n - 1


@pytest.mark.parametrize(
    ("level", "expected"), [(0.95, 19.0), (0.9, 18.0), (0.5, 10.0), (0.05, 1.0), (0.01, 1.0)]
)
def test_conformal_quantile_is_the_score_of_rank_k(level, expected):
    scores = np.random.default_rng(0).permutation(np.arange(1.0, 20.0))
    assert conformal_quantile(scores, level) == expected


def test_conformal_interval_has_stated_coverage_for_any_model():
    # 2,000 repetitions, 39 calibration points and one new one: coverage is exactly 0.9 for
    # continuous scores; its
    # standard error is 0.0067, and 4 of them are a false-alarm rate of 6e-5.
    rng = np.random.default_rng(12)
    hits = []
    for _ in range(2000):
        y = rng.exponential(2.0, 40)
        scores = ConformalScores(("",) * 39, np.abs(y[:39] - 1.0) / 0.3)
        lower, upper = scores.interval(0.9, mean=[1.0], sd=[0.3])
        hits.append(lower[0] <= y[39] <= upper[0])
    assert np.mean(hits) == pytest.approx(0.9, abs=0.027)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_leave_one_out_coverage_equals_its_rank(level):
    """Permutations of an exchangeable set: ceil((m + 1) level) of the m + 1 are inside, of the
    worst model too.
    """
    rng = np.random.default_rng(3)
    m = 40
    mean = rng.normal(3.0, 1.0, m + 1)
    sd = rng.uniform(0.1, 2.0, m + 1)
    y = mean + rng.standard_t(2, m + 1) ** 3 + 0.5  # nothing like N(mean, sd^2)
    inside = 0
    for new in range(m + 1):
        calibration_rows = np.delete(np.arange(m + 1), new)
        scores = ConformalScores(
            tuple(map(str, calibration_rows)),
            scores_of(y[calibration_rows], mean=mean[calibration_rows], sd=sd[calibration_rows]),
        )
        lower, upper = scores.interval(level, mean=mean[[new]], sd=sd[[new]])
        inside += int(lower[0] <= y[new] <= upper[0])
    assert inside == np.ceil((m + 1) * level - 1e-9)


@pytest.mark.parametrize("n", [1, 9, 12, 19, 98])
def test_highest_percent_of_n_scores_is_supported(n):
    highest = highest_percent(n)
    assert (
        smallest_calibration_set(highest / 100) <= n < smallest_calibration_set((highest + 1) / 100)
    )


def test_too_few_held_back_structures_names_the_highest_level():
    text = (
        "12 held-back structures are too few for 95 % conformal intervals, "
        "which need 19: read those of 92 % or less"
    )
    assert too_few(12, level=0.95).startswith(text)
    assert too_few(12, level=0.92) == too_few(19, level=0.95) == ""
