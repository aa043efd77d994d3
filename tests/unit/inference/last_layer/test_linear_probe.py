"""The linear probe is a ridge regression with the least cross-validation score of Kim and Gu."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bandgap.inference.last_layer.linear_probe import GRID, fit_probe, weighted_ridge


def rows(n=30, q=6, seed=0):
    rng = np.random.default_rng(seed)
    h = np.maximum(rng.normal(size=(n, q)), 0.0) + 1.0
    return h, h[:, 0] - h[:, 1] + 0.5 * rng.normal(size=n)


def gcv(h, y, penalty):
    """The score by its definition, n |y - Sy|^2 / (n - 1.4 tr S)^2, with the smoother matrix S."""
    n = len(y)
    centred = h - h.mean(0)
    s = np.full((n, n), 1 / n) + centred @ np.linalg.solve(
        centred.T @ centred + penalty * np.eye(h.shape[1]), centred.T
    )
    return n * np.sum((y - s @ y) ** 2) / (n - 1.4 * np.trace(s)) ** 2


def test_penalty_is_the_one_with_the_lowest_score():
    h, y = rows()
    probe = fit_probe(h, y)
    largest = np.linalg.svd(h - h.mean(0), compute_uv=False)[0] ** 2
    scores = [gcv(h, y, largest * place) for place in GRID]
    assert probe.penalty == pytest.approx(largest * GRID[int(np.argmin(scores))])
    assert 1e-5 * largest < probe.penalty < 100 * largest


def test_weights_are_those_of_ridge_regression_with_a_free_intercept():
    h, y = rows()
    probe = fit_probe(h, y)
    ridge = Ridge(alpha=probe.penalty).fit(h, y)
    np.testing.assert_allclose(probe.head, [*ridge.coef_, ridge.intercept_], rtol=1e-9)
    np.testing.assert_allclose(probe.predict(h), ridge.predict(h), rtol=1e-9)
    np.testing.assert_allclose(fit_probe(h, y + 100.0).weights, probe.weights, rtol=1e-8)


def test_residual_variance_is_near_the_noise():
    """800 rows: its standard error is about 0.25 sqrt(2 / 800), four of them are allowed."""
    h, y = rows(n=800)
    assert abs(fit_probe(h, y).residual_variance - 0.25) < 4 * 0.25 * np.sqrt(2 / 800)


def test_more_features_than_rows_give_a_finite_probe():
    h, y = rows(n=12, q=40)
    probe = fit_probe(h, y)
    assert np.isfinite(probe.head).all() and np.isfinite(probe.residual_variance)


def test_features_that_never_vary_give_the_mean():
    probe = fit_probe(np.ones((5, 3)), np.arange(5.0))
    assert probe.predict(np.ones((1, 3))) == [2.0]
    assert probe.residual_variance == pytest.approx(2.5)


def test_unit_that_is_active_in_one_outlying_row_gets_no_large_weight():
    """Without a penalty its weight would be the residual over 1e-4, ten thousands."""
    h, y = rows(n=100, q=20)
    y[7] += 5.0
    h = np.column_stack([h, 1e-4 * (np.arange(100) == 7)])
    assert np.abs(fit_probe(h, y).weights).max() < 3.0


@pytest.mark.parametrize("penalty", [0.0, 2.5])
def test_weighted_ridge_is_that_of_weighted_rows(penalty):
    h, y = rows()
    omega = np.random.default_rng(1).uniform(0, 3, size=30)
    ridge = Ridge(alpha=penalty, tol=1e-12).fit(h, y, sample_weight=omega)
    np.testing.assert_allclose(
        weighted_ridge(h, y, omega, penalty=penalty), [*ridge.coef_, ridge.intercept_], rtol=1e-8
    )
