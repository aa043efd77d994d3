"""The compiled loops: exponentials against mpmath, factors against numpy."""

import mpmath
import numpy as np
import pytest

from bandgap.research.vecchia import kernels


def test_decay_equals_the_exponential_to_rounding():
    x = np.concatenate(
        [[0.0, 1e-300, 1e-9], np.linspace(0.1, 40.0, 400), [100.0, 649.0, 650.0, 650.1, 1e300]]
    )
    exponentials = np.empty_like(x)
    kernels.decay(x, exponentials)
    for value, e in zip(x, exponentials, strict=True):
        exact = mpmath.exp(-mpmath.mpf(float(value))) if value <= 650.0 else 0
        assert e == pytest.approx(float(exact), rel=1e-15 * (1 + 0.1 * min(value, 650.0)), abs=0)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 26, 61])
def test_factor_and_solves_equal_numpy(size):
    rng = np.random.default_rng(size)
    points = rng.normal(size=(size, 6))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    pairs = np.empty(size * (size - 1) // 2)
    kernels.pair_distances(points, np.arange(size), size, np.empty((6, size)), pairs)
    np.testing.assert_allclose(pairs, distances[np.triu_indices(size, 1)], rtol=1e-13)
    upper = np.zeros((size, size + 1))
    b = rng.normal(size=size)
    upper[:, size] = b
    assert kernels.factor(upper, size, size + 1, np.exp(-pairs), 1.7, 0.3) == 0
    lower = np.linalg.cholesky(1.7 * np.exp(-distances) + 0.3 * np.eye(size))
    np.testing.assert_allclose(np.triu(upper[:, :size]), lower.T, atol=1e-13)
    np.testing.assert_allclose(upper[:, size], np.linalg.solve(lower, b), atol=1e-12)
    for solve, matrix in ((kernels.solve_lower, lower), (kernels.solve_upper, lower.T)):
        solution = b.copy()
        solve(upper, size, solution)
        np.testing.assert_allclose(solution, np.linalg.solve(matrix, b), atol=1e-12)


def test_factor_of_singular_covariance_needs_jitter_and_of_indefinite_one_does_not_exist():
    upper = np.zeros((3, 3))
    assert kernels.factor(upper, 3, 3, np.ones(3), 1.0, 0.0) == 1
    assert kernels.factor(upper, 3, 3, np.full(3, 1.5), 1.0, 0.0) == -1
