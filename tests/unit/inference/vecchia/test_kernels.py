"""The compiled loops: exponentials against mpmath, factors against numpy, and the digits that keep them up to date."""

import hashlib
from pathlib import Path

import mpmath
import numpy as np
import pytest

from bandgap.inference.vecchia import pair_kernels, site_kernels


def test_site_kernels_name_the_pair_kernels_that_are_compiled_into_them():
    digits = hashlib.sha256(Path(pair_kernels.__file__).read_bytes()).hexdigest()[:16]
    assert digits == site_kernels.PAIR_KERNELS, (
        "write these digits into site_kernels.py: it is compiled again then"
    )


def test_decay_equals_the_exponential_to_rounding():
    x = np.concatenate(
        [[0.0, 1e-300, 1e-9], np.linspace(0.1, 40.0, 400), [100.0, 649.0, 650.0, 650.1, 1e300]]
    )
    found = np.empty_like(x)
    pair_kernels.decay(x, found)
    for value, e in zip(x, found, strict=True):
        exact = mpmath.exp(-mpmath.mpf(float(value))) if value <= 650.0 else 0
        assert e == pytest.approx(float(exact), rel=1e-15 * (1 + 0.1 * min(value, 650.0)), abs=0)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 26, 61])
def test_factor_and_solves_equal_numpy(size):
    rng = np.random.default_rng(size)
    points = rng.normal(size=(size, 6))
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    pairs = np.empty(size * (size - 1) // 2)
    pair_kernels.pair_distances(points, np.arange(size), size, np.empty((6, size)), pairs)
    np.testing.assert_allclose(pairs, distances[np.triu_indices(size, 1)], rtol=1e-13)
    upper, b = np.zeros((size, size + 1)), rng.normal(size=size)
    upper[:, size] = b
    assert pair_kernels.factor(upper, size, size + 1, np.exp(-pairs), 1.7, 0.3) == 0
    lower = np.linalg.cholesky(1.7 * np.exp(-distances) + 0.3 * np.eye(size))
    np.testing.assert_allclose(np.triu(upper[:, :size]), lower.T, atol=1e-13)
    np.testing.assert_allclose(upper[:, size], np.linalg.solve(lower, b), atol=1e-12)
    for solve, matrix in ((pair_kernels.solve_lower, lower), (pair_kernels.solve_upper, lower.T)):
        found = b.copy()
        solve(upper, size, found)
        np.testing.assert_allclose(found, np.linalg.solve(matrix, b), atol=1e-12)


def test_factor_of_a_singular_covariance_needs_the_jitter_and_an_impossible_one_has_none():
    upper = np.zeros((3, 3))
    assert pair_kernels.factor(upper, 3, 3, np.ones(3), 1.0, 0.0) == 1
    assert pair_kernels.factor(upper, 3, 3, np.full(3, 1.5), 1.0, 0.0) == -1
