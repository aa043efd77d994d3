"""Gaussian process classification by expectation propagation."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from bandgap.inference.gaussian_process.probit import JITTER, ProbitProblem
from bandgap.inference.gaussian_process.product_kernel import covariance


def problem(n: int, *, seed: int = 0) -> ProbitProblem:
    """Return a problem with two blocks of features; the first block gives the class."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    squares = tuple((x[:, [k]] - x[:, k]) ** 2 for k in range(2))
    return ProbitProblem(squares, np.where(x[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0))


def test_evidence_of_two_rows_is_near_the_integral() -> None:
    two = ProbitProblem((np.array([[0.0, 1.0], [1.0, 0.0]]),), np.array([1.0, -1.0]))
    theta = np.array([0.3, 0.5])
    k = covariance(np.array([*theta, -9.0]), two.squares) + JITTER * np.eye(2)
    density = multivariate_normal(np.zeros(2), k).pdf
    exact = dblquad(lambda a, b: ndtr(a) * ndtr(-b) * density([a, b]), -25, 25, -25, 25)[0]
    # the approximation's own error, in this case 1e-3
    assert two.sites(theta).log_evidence == pytest.approx(np.log(exact), abs=0.02)


def test_evidence_of_one_row_is_exact() -> None:
    one = ProbitProblem((np.zeros((1, 1)),), np.array([1.0]))
    assert one.sites(np.array([0.0, 0.0])).log_evidence == pytest.approx(np.log(0.5), abs=1e-9)


def test_gradient_is_that_of_finite_differences() -> None:
    many = problem(30)
    theta = np.array([0.8, 0.4, 1.2])
    gradient = many.log_density(theta)[1]
    step = 1e-3
    for i in range(3):
        move = step * np.eye(3)[i]
        difference = many.log_density(theta + move)[0] - many.log_density(theta - move)[0]
        assert gradient[i] == pytest.approx(difference / (2 * step), abs=5e-3)


def test_left_out_row_is_near_a_fit_without_it() -> None:
    many = problem(40)
    theta = np.array([1.0, 0.5, 1.5])
    mean, variance = many.left_out(theta, many.sites(theta))
    for i in (0, 7, 23):
        rows = np.delete(np.arange(40), i)
        without = ProbitProblem(tuple(s[np.ix_(rows, rows)] for s in many.squares), many.y[rows])
        new = tuple(s[[i]][:, rows] for s in many.squares)
        expected = without.conditional(theta, without.sites(theta), new)
        assert mean[i] == pytest.approx(expected[0][0], abs=0.1)
        assert variance[i] == pytest.approx(expected[1][0], rel=0.1)


def test_mode_finds_the_block_that_gives_the_class() -> None:
    theta = problem(120, seed=2).mode()
    assert theta[1] < theta[2]  # the length of the first block is shorter
