"""Weights of a pool, against a grid of the simplex and known laws, and the factor of its spread."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from bandgap.inference.stacking import SPREADS, fit_pool, stacking_weights


def objective(log_densities, weights, prior_rows):
    members = log_densities.shape[1]
    return (
        logsumexp(log_densities, b=weights, axis=1).sum()
        + prior_rows / members * np.log(weights).sum()
    )


@pytest.mark.parametrize(
    "prior_rows",
    [2.0, pytest.param(0.5, marks=pytest.mark.slow), pytest.param(30.0, marks=pytest.mark.slow)],
)
def test_weights_are_the_maximum_on_a_grid_of_the_simplex(prior_rows):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    logs = np.stack(
        [norm.logpdf(y, 0.4, 1.0), norm.logpdf(y, -0.3, 0.8), norm.logpdf(y, 0.0, 3.0)], axis=1
    )
    weights = stacking_weights(logs, prior_rows=prior_rows)
    axis = np.linspace(0.005, 0.99, 150)
    a, b = np.meshgrid(axis, axis)
    inside = a + b < 0.995
    grid = np.stack([a[inside], b[inside], 1 - a[inside] - b[inside]], axis=1)
    values = [objective(logs, w, prior_rows) for w in grid]
    best = grid[int(np.argmax(values))]
    assert objective(logs, weights, prior_rows) >= max(values)
    np.testing.assert_allclose(weights, best, atol=0.02)
    assert weights.sum() == pytest.approx(1.0)


def test_weights_of_a_true_mixture_are_recovered():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(20_000) < 0.3, rng.normal(-2, 0.5, 20_000), rng.normal(1, 1.0, 20_000))
    logs = np.stack([norm.logpdf(y, -2, 0.5), norm.logpdf(y, 1, 1.0)], axis=1)
    np.testing.assert_allclose(stacking_weights(logs, prior_rows=2.0), [0.3, 0.7], atol=0.015)


def test_prior_keeps_a_member_that_fits_few_rows_badly():
    logs = np.tile(np.log([[0.5, 0.1]]), (4, 1))
    assert stacking_weights(logs, prior_rows=1e-6)[1] < 1e-3
    assert stacking_weights(logs, prior_rows=2.0)[1] > 0.15
    assert stacking_weights(np.tile(logs, (100, 1)), prior_rows=2.0)[1] < 0.01


def test_densities_below_the_smallest_float_have_weights():
    logs = np.array([[-2000.0, -2001.0], [-1500.0, -1502.0]])
    assert np.isfinite(stacking_weights(logs, prior_rows=1.0)).all()
    assert stacking_weights(logs, prior_rows=1.0)[0] > 0.5


@pytest.mark.parametrize(("true_sd", "expected"), [(0.9, 0.9), (1.0, 1.0), (1.1, 1.1)])
def test_factor_of_many_rows_is_their_true_factor(true_sd, expected):
    rng = np.random.default_rng(2)
    y = rng.normal(0, true_sd, 20_000)
    logs = np.stack([np.stack([norm.logpdf(y, 0, c) for c in SPREADS], axis=1)] * 2, axis=1)
    fit = fit_pool(logs, spreads=SPREADS, prior_rows=2.0, spread_sd=0.05)
    assert fit.spread == pytest.approx(expected)


def test_factor_of_few_rows_with_a_narrow_prior_is_one():
    y = np.random.default_rng(3).normal(size=20)
    y *= 0.88 / np.sqrt(np.mean(y**2))
    logs = np.stack([np.stack([norm.logpdf(y, 0, c) for c in SPREADS], axis=1)] * 2, axis=1)
    assert fit_pool(logs, spreads=SPREADS, prior_rows=2.0, spread_sd=0.01).spread == 1.0
    assert fit_pool(logs, spreads=SPREADS, prior_rows=2.0, spread_sd=10.0).spread == 0.88


@pytest.mark.parametrize(("log_density", "expected"), [(0.23, 1.0), (0.43, 1.1)])
def test_prior_of_the_weights_counts_when_the_factor_is_selected(log_density, expected):
    """At the second factor one member fits the 4 rows, so its weight is 5/6 and that of the other
    1/6. Their prior costs log(5/36) - log(1/4) = -0.59, and log(5/6) is lost in every row.
    """
    both_fit = np.zeros((4, 2))
    one_fits = np.tile([log_density, -20.0], (4, 1))
    fit = fit_pool(
        np.stack([both_fit, one_fits], axis=2),
        spreads=np.array([1.0, 1.1]),
        prior_rows=2.0,
        spread_sd=1e3,
    )
    assert fit.spread == expected
