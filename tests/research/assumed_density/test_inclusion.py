"""Inclusion probabilities of weights against draws of the network."""

import numpy as np

from bandgap.research.assumed_density.inclusion import units_on, weight_inclusion
from bandgap.research.assumed_density.moments import output_moments
from tests.research.assumed_density.test_moments import random_weights


def test_units_are_on_as_often_as_their_draws_are_above_zero():
    weights = random_weights((3, 4, 1), biased=True, seed=1)
    x = np.random.default_rng(0).normal(size=(5, 3))
    (on,) = units_on(weights, x)
    rng = np.random.default_rng(1)
    wide = np.hstack([x, np.ones((5, 1))])
    w = weights.means[0] + np.sqrt(weights.variances[0]) * rng.standard_normal((100_000, 4, 4))
    above = (np.einsum("dij,nj->dni", w, wide) > 0).mean(0)
    np.testing.assert_allclose(on, above, atol=5 * np.sqrt(0.25 / 100_000))


def test_weight_takes_part_where_both_of_its_units_are_on():
    on = [np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([[0.2, 1.0, 0.0], [0.4, 1.0, 0.0]])]
    weights = random_weights((2, 2, 3, 1), biased=True, seed=0)
    first, second, last = weight_inclusion(weights, on)
    np.testing.assert_allclose(first, [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]])
    np.testing.assert_allclose(second, [[0.1, 0.15, 0.3], [0.5, 0.5, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(last, [[0.3, 1.0, 0.0, 1.0]])
    assert [a.shape for a in (first, second, last)] == [m.shape for m in weights.means]


def test_unit_that_is_surely_off_takes_its_weights_out_and_changes_nothing():
    weights = random_weights((3, 4, 1), biased=True, seed=1, spread=0.01)
    weights.means[0][2] = [0.0, 0.0, 0.0, -50.0]
    x = np.random.default_rng(0).normal(size=(5, 3))
    first, last = weight_inclusion(weights, units_on(weights, x))
    assert first[2].max() < 1e-12 and last[0, 2] < 1e-12
    before = output_moments(weights, x).mean
    weights.means[1][0, 2] += 100.0
    np.testing.assert_allclose(output_moments(weights, x).mean, before, atol=1e-9)
