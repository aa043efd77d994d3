"""The reduced regression is the n x n one, its intercept that of generalised least squares."""

import numpy as np
import pytest

from bandgap.inference.last_layer.reduced_regression import reduce_regression, square_root
from tests.unit.inference.last_layer.regressions import explicit, make_regression

DRAWS = 40_000
SIGMAS = (
    4.5  # of the largest of about 50 comparisons: a false alarm in 3,000 runs; the seeds are fixed
)


@pytest.mark.parametrize("source", [True, False], ids=["source error", "exact source"])
@pytest.mark.parametrize(("n", "p"), [(30, 4), (5, 9), (1, 3), (2, 1)])
def test_moments_equal_those_of_the_n_by_n_matrices_with_an_intercept(n, p, source):
    x, z, s1 = make_regression(n, p)
    s1 = s1 if source else None
    problem = reduce_regression(x, z, source_covariance=s1)
    gram, moment, square, _ = explicit(x, z, s1)
    assert problem.n == n - 1
    np.testing.assert_allclose(problem.gram, gram, rtol=0, atol=1e-9)
    np.testing.assert_allclose(problem.moment, moment, rtol=0, atol=1e-9)
    assert problem.square == pytest.approx(square, abs=1e-9)


@pytest.mark.parametrize("source", [True, False], ids=["source error", "exact source"])
def test_whitened_rows_are_kept_where_they_are_few_and_give_the_same_moments(source):
    x, z, s1 = make_regression(5, 9)
    problem = reduce_regression(x, z, source_covariance=s1 if source else None)
    np.testing.assert_allclose(problem.rows.T @ problem.rows, problem.gram, rtol=0, atol=1e-9)
    np.testing.assert_allclose(problem.rows.T @ problem.response, problem.moment, rtol=0, atol=1e-9)
    assert problem.response @ problem.response == pytest.approx(problem.square, abs=1e-9)
    assert reduce_regression(*make_regression(6, 9)[:2]).rows is None


def test_only_kept_columns_have_coefficients_but_all_have_a_source_error():
    x, z, s1 = make_regression(20, 4)
    has_change = np.array([True, False, True, False])
    problem = reduce_regression(x, z, source_covariance=s1, has_change=has_change)
    gram, moment, _, _ = explicit(x, z, s1)
    np.testing.assert_allclose(
        problem.gram, gram[np.ix_(has_change, has_change)], rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(problem.moment, moment[has_change], rtol=0, atol=1e-9)
    assert problem.source.draw(np.zeros((3, 2)), np.ones(3), np.random.default_rng(0)).shape == (
        3,
        4,
    )


@pytest.mark.parametrize(
    "has_change", [[True, True, True], [True, False, True]], ids=["all", "two of three"]
)
def test_coefficients_source_error_and_intercept_are_those_of_the_joint_normal_law(has_change):
    """Posterior of (a, delta, u) given Z as one regression.

    s2 = 0.7, delta ~ N(0, s2 0.4 I), and a flat prior for a.
    """
    n, p, s2, variance, has_change = 6, 3, 0.7, 0.4, np.array(has_change)
    x, z, s1 = make_regression(n, p)
    wide = np.hstack([np.ones((n, 1)), x[:, has_change], x])
    precision = np.zeros((1 + has_change.sum() + p,) * 2)
    precision[1 : 1 + has_change.sum(), 1 : 1 + has_change.sum()] = (
        np.eye(has_change.sum()) / variance
    )
    precision[1 + has_change.sum() :, 1 + has_change.sum() :] = np.linalg.inv(s1)
    covariance = s2 * np.linalg.inv(precision + wide.T @ wide)
    mean = covariance @ wide.T @ z / s2

    problem = reduce_regression(x, z, source_covariance=s1, has_change=has_change)
    rng = np.random.default_rng(1)
    a_inv = np.linalg.inv(problem.gram + np.eye(has_change.sum()) / variance)
    delta = rng.multivariate_normal(a_inv @ problem.moment, s2 * a_inv, size=DRAWS)
    u = problem.source.draw(delta, np.full(DRAWS, s2), rng)
    change = u.copy()
    change[:, has_change] += delta
    at_zero = problem.draw_intercept(np.full(DRAWS, s2), rng) - change @ problem.mean_row
    draws = np.column_stack([at_zero, delta, u])
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(0) - mean) < SIGMAS * sd / np.sqrt(DRAWS) + 1e-6).all()
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
    error = products.std(0) / np.sqrt(DRAWS)
    assert (np.abs(products.mean(0) - covariance) < SIGMAS * error + 1e-6).all()


def test_shift_of_rows_or_responses_changes_only_the_intercept():
    x, z, s1 = make_regression(15, 3)
    plain, moved = (
        reduce_regression(x + shift, z + 1e3 * shift, source_covariance=s1) for shift in (0.0, 7.0)
    )
    np.testing.assert_allclose(moved.gram, plain.gram, rtol=0, atol=1e-9)
    np.testing.assert_allclose(moved.moment, plain.moment, rtol=0, atol=1e-8)
    assert moved.mean_response == pytest.approx(plain.mean_response + 7e3)


def test_constant_responses_and_columns_leave_zeros():
    x, _, s1 = make_regression(8, 3)
    x[:, 1] = 2.0
    problem = reduce_regression(x, np.full(8, 4.0), source_covariance=s1)
    assert problem.square == pytest.approx(0.0, abs=1e-20)
    np.testing.assert_allclose(problem.moment, 0.0, atol=1e-15)
    np.testing.assert_allclose(problem.gram[1], 0.0, atol=1e-12)


@pytest.mark.parametrize("rank", [0, 2, 5])
def test_square_root_squares_to_the_covariance_whatever_its_rank(rank):
    root = np.random.default_rng(2).normal(size=(5, rank))
    covariance = root @ root.T
    c = square_root(covariance)
    np.testing.assert_allclose(c @ c.T, covariance, rtol=0, atol=1e-12)
