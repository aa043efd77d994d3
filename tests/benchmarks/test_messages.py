"""Distances of messages from draws."""

import numpy as np
import pytest

from benchmarks.messages import squared_distance


def direct(a, b):
    """The biased estimate from all pairs."""

    def mean(x, y):
        return np.exp(-((x[:, None] - y) ** 2)).mean()

    return mean(a, a) + mean(b, b) - 2.0 * mean(a, b)


@pytest.mark.parametrize("shift", [0.0, 0.3, 40.0])
def test_distance_on_the_grid_agrees_with_all_pairs(shift):
    rng = np.random.default_rng(0)
    a = np.maximum(rng.normal(size=700), 0.0)
    b = shift + 1.5 * rng.normal(size=500)
    assert squared_distance(a, b) == pytest.approx(direct(a, b), rel=1e-5, abs=1e-9)
