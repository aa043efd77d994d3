"""Comparison of posterior draws of a scale with draws of its prior."""

import numpy as np
import pytest

from bandgap.inference.prior_comparison import (
    MOST_ERROR,
    PriorComparison,
    compare_with_prior,
    equal_to_prior,
)


def chains_of(rng: np.random.Generator, *, shift: float = 0.0, draws: int = 250) -> np.ndarray:
    return shift + rng.normal(size=(4, draws))


def test_draws_of_the_prior_equal_the_prior() -> None:
    """Each of 200 comparisons fails with probability below 0.001, because of the tolerance."""
    rng = np.random.default_rng(0)
    comparisons = [
        compare_with_prior("tau", chains_of(rng), rng.normal(size=1000)) for _ in range(200)
    ]
    assert all(comparison is not None and comparison.equals_prior for comparison in comparisons)


@pytest.mark.parametrize("shift", [0.5, -0.5, 2.0])
def test_shifted_posterior_does_not_equal_the_prior(shift: float) -> None:
    """Half a standard deviation is a distance of 0.20, above tolerance plus error (0.12)."""
    rng = np.random.default_rng(1)
    comparison = compare_with_prior("tau", chains_of(rng, shift=shift), rng.normal(size=1000))
    assert comparison is not None and not comparison.equals_prior and comparison.sentence == ""


def test_narrower_posterior_of_the_same_mean_does_not_equal_the_prior() -> None:
    rng = np.random.default_rng(2)
    comparison = compare_with_prior("tau", 0.4 * chains_of(rng), rng.normal(size=1000))
    assert comparison is not None and not comparison.equals_prior


def test_slow_chains_are_too_few_effective_draws() -> None:
    rng = np.random.default_rng(3)
    slow = np.repeat(rng.normal(size=(4, 5)), 50, axis=1)
    comparison = compare_with_prior("tau", slow, rng.normal(size=1000))
    assert comparison is not None and comparison.error > MOST_ERROR and not comparison.equals_prior


@pytest.mark.parametrize(
    "posterior", [np.zeros((4, 3)), np.ones((4, 100))], ids=["too short", "constant"]
)
def test_chains_that_cannot_be_judged_give_no_comparison(posterior: np.ndarray) -> None:
    assert compare_with_prior("tau", posterior, np.random.default_rng(4).normal(size=1000)) is None


def test_message_names_scale_figures_and_what_to_do() -> None:
    stored = {"scale": "tau", "distance": 0.07, "error": 0.069, "effective_draws": 1276.0}
    moved = {**stored, "distance": 0.3, "equals_prior": False}
    (sentence,) = equal_to_prior([{**stored, "equals_prior": True}, moved])
    assert sentence.startswith("The posterior of the scale tau equals its prior")
    assert "at most 0.07, with a Monte-Carlo error of 0.07 (1,276 effective draws)" in sentence
    assert "another rate lam" in sentence
    assert PriorComparison(**stored).sentence == sentence
