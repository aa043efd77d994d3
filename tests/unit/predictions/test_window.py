"""Target windows: their probability against computations by hand, and the lists that they rank."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.next_structures import (
    CHANCE,
    IMPROVEMENT,
    criteria,
    next_structures,
)
from bandgap.predictions.table import LEVELS, predictions_from_draws
from bandgap.predictions.window import Window, normal_probability, probability_below
from bandgap.predictions.window_ranking import rank_for_window
from tests.unit.predictions.test_next_structures import NO_HYDROGENS, predicted

WINDOW = Window(1.3, 1.7)


def normal_cdf(score: float) -> float:
    return 0.5 * math.erfc(-score / math.sqrt(2))


def predictions_of(means, sds):
    """Predictions of structures with one normal component for each row of `means`."""
    n = np.shape(means)[1]
    texts = {name: [f"{name}{k}" for k in range(n)] for name in ("ids", "files", "formulas")}
    ok = ["ok"] * n
    return predictions_from_draws(means, sds, **texts, domain=ok, status=ok, problem=[""] * n)


def test_probability_of_normal_predictions_is_that_of_the_error_function():
    means = np.array([[1.5, 1.9, 0.2, 1.3]])
    predictions = predictions_of(means, np.array([0.2]))
    by_hand = [normal_cdf((1.7 - mean) / 0.2) - normal_cdf((1.3 - mean) / 0.2) for mean in means[0]]
    assert_allclose(predictions.window_probability(WINDOW), by_hand, atol=1e-8)
    assert_allclose(normal_probability(WINDOW, means[0], 0.2), by_hand, atol=1e-12)


def test_probability_of_a_mixture_with_two_modes_is_within_half_a_percent():
    means = np.array([[0.5, 1.5], [0.5, 1.6], [3.0, 1.2], [3.0, 1.9]])
    sds = np.array([0.05, 0.1, 0.02, 0.3])
    predictions = predictions_of(means, sds)
    for window in (Window(0.4, 0.6), Window(0.6, 2.9), Window(1.3, 1.7), Window(2.9, 9.0)):
        by_hand = normal_probability(window, means, sds[:, None]).mean(axis=0)
        assert_allclose(predictions.window_probability(window), by_hand, atol=0.01)


def test_window_that_is_an_interval_has_the_probability_of_its_level():
    rng = np.random.default_rng(0)
    predictions = predictions_of(rng.gamma(2.0, size=(50, 3)), rng.gamma(1.0, size=50) + 0.01)
    lower, upper = predictions.interval(0.83)
    for k in range(3):
        window = Window(max(lower[k], 0.0), upper[k])
        expected = 0.83 if lower[k] > 0 else 0.915
        assert predictions.window_probability(window)[k] == pytest.approx(expected, abs=1e-9)


def test_window_from_zero_counts_what_is_predicted_below_zero():
    predictions = predictions_of(np.array([[0.0, 0.0]]), np.array([0.1]))
    assert_allclose(predictions.window_probability(Window(0.0, 0.1)), normal_cdf(1.0), atol=1e-8)
    assert_allclose(
        predictions.window_probability(Window(1e-9, 0.1)), normal_cdf(1.0) - 0.5, atol=1e-6
    )


def test_point_mass_at_an_end_belongs_to_the_window():
    # 30 % of the probability is at 0 eV, the others are spread evenly over 1 to 2 eV.
    quantiles = np.where(LEVELS <= 0.3, 0.0, 1.0 + (LEVELS - 0.3) / 0.7)[:, None]
    at_zero = probability_below(quantiles, LEVELS, 0.0, inclusive=True)
    assert at_zero[0] == pytest.approx(0.3, abs=0.005)
    assert probability_below(quantiles, LEVELS, 0.0)[0] == 0.0
    assert Window(0.0, 0.5).probability(quantiles, LEVELS)[0] == pytest.approx(0.3, abs=0.005)
    assert Window(1.0, 1.5).probability(quantiles, LEVELS)[0] == pytest.approx(0.35, abs=0.005)


def test_refused_rows_have_no_probability_and_others_are_in_the_table():
    predictions = predictions_from_draws(
        np.array([[1.5]]),
        np.array([0.1]),
        ids=["a", "b"],
        files=["", ""],
        formulas=["", ""],
        domain=["ok", ""],
        status=["ok", "refused"],
        problem=["", "no cell"],
    )
    frame = predictions.to_frame(window=WINDOW)
    assert frame["window"].tolist() == ["1.3:1.7"] * 2
    assert frame["p_window"][0] == pytest.approx(2 * normal_cdf(2.0) - 1, abs=1e-8)
    assert np.isnan(frame["p_window"][1])
    assert "p_window" not in predictions.to_frame()


def test_expected_depth_is_the_closed_form_of_a_normal_distribution():
    # E max(h - |Y - t|, 0) of Y ~ N(t + d, s^2): improvement over a bound at both ends.
    sd = 0.15
    half = 0.2
    means = np.array([[1.5, 1.65, 2.1]])
    predictions = predictions_of(means, np.array([sd]))
    gaps = np.linspace(1.3, 1.7, 200_001)
    density = np.exp(-0.5 * ((gaps[:, None] - means) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    by_sum = np.trapezoid((half - np.abs(gaps - 1.5))[:, None] * density, gaps, axis=0)
    assert_allclose(predictions.window_depth_eV(WINDOW), by_sum, atol=2e-5)


@pytest.mark.parametrize("text", ["", "1.3", "1.7:1.3", "1:1", "-1:2", "a:b", "1:inf", "nan:2"])
def test_text_that_is_no_window_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"window is .*Accepted: two numbers in eV, FROM:TO"):
        Window.parse(text)


def test_batch_avoids_the_twin_that_misses_together_with_the_first():
    # s0 and s1 are in the window in the same half of the draws, s2 in the other half.
    inside = np.array([1.0, 0.0] * 50)
    means = np.stack([inside * 1.5, inside * 1.5, (1 - inside) * 1.5], axis=1)
    for goal in ("chance", "improvement"):
        ranking = rank_for_window(
            means,
            np.full(3, 1e-4),
            WINDOW,
            goal=goal,
            single_scores=np.array([0.5, 0.49, 0.48]),
            count=3,
        )
        assert set(ranking.rows[:2]) == {0, 2} or set(ranking.rows[:2]) == {1, 2}
    assert_allclose(ranking.totals[1:], 0.2, atol=0.01)  # the best is in the middle


def test_chance_of_a_batch_is_that_of_independent_structures():
    means = np.full((64, 2), 1.7)  # each has a chance of one half
    ranking = rank_for_window(
        means,
        np.full(2, 1e-6),
        WINDOW,
        goal="chance",
        single_scores=np.full(2, 0.5),
        count=2,
    )
    assert_allclose(ranking.totals, [0.5, 0.75], atol=1e-6)


@pytest.mark.parametrize("criterion", [CHANCE, IMPROVEMENT])
@pytest.mark.parametrize("spread", [True, False])
def test_list_for_a_window_has_its_probabilities_and_leaves_out_doubtful_files(criterion, spread):
    predictions, details = predicted(["", "", "", NO_HYDROGENS])
    window = Window(1.9, 2.1)
    ranked = next_structures(
        predictions, details, criterion=criterion, count=3, spread=spread, window=window
    )
    columns = ranked.columns(predictions, details)
    assert columns["rank"] == [1, 2, 3, None] and columns["id"][0] == "s0"
    expected = predictions.window_probability(window)[[*ranked.rows, 3]]
    assert_allclose(columns["p_window"], expected)
    assert (np.asarray(columns["depth_eV"]) >= 0).all()
    assert ranked.window_sentence.startswith("Expected in 1.9 to 2.1 eV: ")
    if not spread:
        assert (np.diff(columns["p_window" if criterion == CHANCE else "depth_eV"][:3]) <= 0).all()


def test_few_draws_allow_the_criteria_of_a_window_without_spread():
    predictions, details = predicted(["", ""], draws=1)
    assert criteria(details, WINDOW)[:2] == [CHANCE, IMPROVEMENT]
    ranked = next_structures(predictions, details, criterion=CHANCE, window=WINDOW)
    assert len(ranked.rows) == 2 and ranked.window_ranking is None
    with pytest.raises(InputError, match="no window is given"):
        next_structures(predictions, details, criterion=CHANCE)


def predicted_with_metals(centres, sd, p_metal, *, draws=200):
    """Return predictions of mixtures of a metal and a semiconductor, and their details."""
    n = len(centres)
    rng = np.random.default_rng(0)
    all_centres = centres + 0.05 * rng.normal(size=(draws, n))
    means = all_centres * (1.0 - p_metal)
    ok = ["ok"] * n
    texts = {name: [f"{name}{k}" for k in range(n)] for name in ("ids", "files", "formulas")}
    predictions = predictions_from_draws(
        means,
        np.full((draws, n), sd),
        centres=all_centres,
        **texts,
        domain=ok,
        status=ok,
        problem=[""] * n,
        p_metal=p_metal,
    )
    details = PredictionDetails(
        nearest=("known",) * n,
        n_atoms=np.full(n, 5),
        distance=np.full(n, 0.1),
        percentile=np.full(n, 0.5),
        labelled=np.zeros(n, dtype=bool),
        joint_rows=np.arange(n),
        means_eV=means.astype(np.float32),
        noise_variance=predictions.sd_new_eV**2 - means.var(axis=0),
    )
    return predictions, details


@pytest.mark.parametrize("criterion", [CHANCE, IMPROVEMENT])
def test_mixture_whose_mean_alone_is_in_the_window_is_ranked_last(criterion):
    # a metal or 3 eV with equal probabilities: the mean of 1.5 eV is no probable gap
    centres = np.array([3.0, 2.2, 2.4])
    p_metal = np.array([0.5, 0.01, 0.01])
    predictions, details = predicted_with_metals(centres, 0.3, p_metal)
    ranked = next_structures(predictions, details, criterion=criterion, window=WINDOW)
    assert ranked.rows.tolist() == [1, 2, 0]
    if criterion == CHANCE:
        chances = predictions.window_probability(WINDOW)
        assert ranked.window_ranking.totals[0] == pytest.approx(chances[1], rel=0.1)


def test_window_from_zero_ranks_the_most_probable_metal_first():
    p_metal = np.array([0.2, 0.9, 0.5])
    predictions, details = predicted_with_metals(np.full(3, 2.0), 0.3, p_metal)
    window = Window(0.0, 0.1)
    assert_allclose(predictions.window_probability(window), p_metal, atol=0.006)
    ranked = next_structures(predictions, details, criterion=CHANCE, window=window)
    assert ranked.rows.tolist() == [1, 2, 0]
    assert ranked.window_ranking.totals[0] == pytest.approx(0.9, abs=0.01)
