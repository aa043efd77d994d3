"""Rows in blocks of one size: every block is full, what comes back has the rows that were given, each as if alone."""

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from bandgap.foundation.fixed_blocks import ROWS, by_fixed_block


@pytest.mark.parametrize("n", [0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS])
def test_blocks_are_full_and_rows_come_back_in_order(n):
    sizes = []

    def evaluate(a, b):
        sizes.append((a.shape, b.shape))
        return a.sum(axis=1), (a * b[:, None]).T

    a, b = np.arange(3.0 * n).reshape(n, 3), np.arange(float(n))
    total, product = by_fixed_block(evaluate, a, b)
    np.testing.assert_array_equal(total, a.sum(axis=1))
    np.testing.assert_array_equal(product, (a * b[:, None]).T)
    assert set(sizes) == {((ROWS, 3), (ROWS,))} and len(sizes) == max(1, -(-n // ROWS))


@pytest.mark.parametrize("inputs", [1, 7, 50, 501, 1261])
@pytest.mark.parametrize("units", [1, 3, 64, 400])
def test_products_and_solutions_do_not_depend_on_the_other_rows(inputs, units):
    """What the posteriors rest on: products in double precision, and triangular solutions, in full blocks."""
    rng = np.random.default_rng(inputs + units)
    weights, vector = rng.normal(size=(units, inputs)), rng.normal(size=inputs)
    small = min(inputs, 501)
    lower = np.tril(rng.normal(size=(small, small)) / small) + np.eye(small)

    def evaluate(x):
        solved = solve_triangular(lower, x[:, :small].T, lower=True, check_finite=False)
        return x @ vector, (x @ weights.T).T, weights @ x.T, (solved**2).sum(axis=0)

    x = rng.normal(size=(41, inputs))
    whole = by_fixed_block(evaluate, x)
    for rows in ([0], [40], [3, 40, 17], range(40, -1, -1)):
        for found, expected in zip(by_fixed_block(evaluate, x[list(rows)]), whole, strict=True):
            np.testing.assert_array_equal(found, expected[..., list(rows)])
