"""Rows in blocks of a fixed size: blocks are full, and results are independent of other rows."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from bandgap.foundation.fixed_blocks import ROWS, by_fixed_block


@pytest.mark.parametrize("n", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS])
def test_blocks_are_full_and_results_are_in_order(n):
    sizes = []

    def evaluate(a, b):
        sizes.append((a.shape, b.shape))
        return a.sum(axis=1), (a * b[:, None]).T

    a = np.arange(3.0 * n).reshape(n, 3)
    b = np.arange(float(n))
    total, product = by_fixed_block(evaluate, a, b)
    np.testing.assert_array_equal(total, a.sum(axis=1))
    np.testing.assert_array_equal(product, (a * b[:, None]).T)
    assert set(sizes) == {((ROWS, 3), (ROWS,))}
    assert len(sizes) == max(1, -(-n // ROWS))


@pytest.mark.parametrize("inputs", [1, 7, 50, 501, 1261])
@pytest.mark.parametrize("units", [1, 3, 64, 400])
def test_products_and_solutions_do_not_depend_on_the_other_rows(inputs, units):
    """Posteriors use products in double precision and triangular solutions."""
    rng = np.random.default_rng(inputs + units)
    weights = rng.normal(size=(units, inputs))
    vector = rng.normal(size=inputs)
    small = min(inputs, 501)
    lower = np.tril(rng.normal(size=(small, small)) / small) + np.eye(small)

    def evaluate(x):
        solved = solve_triangular(lower, x[:, :small].T, lower=True, check_finite=False)
        return x @ vector, (x @ weights.T).T, weights @ x.T, (solved**2).sum(axis=0)

    x = rng.normal(size=(41, inputs))
    all_results = by_fixed_block(evaluate, x)
    for rows in ([0], [40], [3, 40, 17], range(40, -1, -1)):
        results = by_fixed_block(evaluate, x[list(rows)])
        for result, expected in zip(results, all_results, strict=True):
            np.testing.assert_array_equal(result, expected[..., list(rows)])
