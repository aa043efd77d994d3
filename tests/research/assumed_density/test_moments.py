"""Moments of a network's output against draws of its weights; SSPBP's messages against PBP's."""

from itertools import pairwise

import numpy as np
import pytest

from bandgap.research.assumed_density.belief import (
    Weights,
    belief_around,
    fresh_belief,
    scaled_layers,
)
from bandgap.research.assumed_density.moments import output_moments

DRAWS = 300_000


def random_weights(widths, *, biased, seed, spread=0.6):
    rng = np.random.default_rng(seed)
    shapes = [(out, n + biased) for n, out in pairwise(widths)]
    means = tuple(rng.normal(size=s) for s in shapes)
    return Weights(means, tuple(spread * rng.uniform(0.2, 1.0, size=s) for s in shapes), biased)


def sampled(weights, x, *, draws, seed):
    """Outputs of one row under draws of all weights, by the network itself."""
    rng = np.random.default_rng(seed)
    z = np.broadcast_to(x, (draws, x.size))
    for level, (mean, variance) in enumerate(zip(weights.means, weights.variances, strict=True)):
        if weights.biased:
            z = np.hstack([z, np.ones((draws, 1))])
        values = np.empty((draws, mean.shape[0]))
        for i in range(mean.shape[0]):  # unit by unit, to save memory
            w = mean[i] + np.sqrt(variance[i]) * rng.standard_normal((draws, mean.shape[1]))
            values[:, i] = (w * z).sum(1) / np.sqrt(mean.shape[1])
        z = values if level == len(weights.means) - 1 else np.maximum(values, 0.0)
    return z[:, 0]


def errors(sample):
    """Mean, variance, and the standard errors of both."""
    mean = sample.mean()
    variance = sample.var()
    n = sample.size
    fourth = np.mean((sample - mean) ** 4)
    return mean, variance, np.sqrt(variance / n), np.sqrt((fourth - variance**2) / n)


@pytest.mark.parametrize("atoms", [False, True], ids=["PBP", "SSPBP"])
@pytest.mark.parametrize("biased", [True, False], ids=["biases", "no biases"])
def test_one_hidden_layer_has_the_mean_and_variance_of_its_draws(biased, atoms):
    """Within four standard errors: one of eight figures is outside in 1 of 2,000 seeds."""
    weights = random_weights((3, 4, 1), biased=biased, seed=1)
    x = np.array([0.7, -1.2, 0.4])
    moments = output_moments(weights, x[None], atoms=atoms)
    mean, variance, mean_error, variance_error = errors(sampled(weights, x, draws=DRAWS, seed=2))
    assert abs(moments.mean[0, 0] - mean) < 4 * mean_error
    assert abs(moments.variance[0, 0] - variance) < 4 * variance_error


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hidden_layers_are_close_to_their_draws(seed):
    weights = random_weights((3, 4, 4, 1), biased=True, seed=seed)
    x = np.array([0.7, -1.2, 0.4])
    moments = output_moments(weights, x[None])
    mean, variance, *_ = errors(sampled(weights, x, draws=200_000, seed=seed))
    assert abs(moments.mean[0, 0] - mean) < 0.05 * np.sqrt(variance)
    assert abs(moments.variance[0, 0] / variance - 1.0) < 0.15


def test_output_of_a_narrow_layer_without_biases_is_zero_with_the_reported_probability():
    """Exact with one hidden layer: 1 - rho is the product of the units' chances to be off."""
    weights = random_weights((3, 3, 1), biased=False, seed=5, spread=2.0)
    x = np.array([-0.9, 0.3, 0.5])
    moments = output_moments(weights, x[None], atoms=True)
    zero = np.mean(sampled(weights, x, draws=DRAWS, seed=6) == 0.0)
    assert 0.02 < zero < 0.9
    assert abs(1.0 - moments.share[0] - zero) < 4 * np.sqrt(zero * (1 - zero) / DRAWS)


@pytest.mark.parametrize("widths", [(4, 5, 1), (4, 6, 5, 1), (3, 50, 50, 50, 1)])
def test_with_biases_messages_with_atoms_are_those_without(widths):
    for seed in range(10):
        weights = random_weights(widths, biased=True, seed=seed)
        x = np.random.default_rng(seed).normal(size=(20, widths[0]))
        plain, atoms = (output_moments(weights, x, atoms=a) for a in (False, True))
        np.testing.assert_allclose(atoms.mean, plain.mean, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(atoms.variance, plain.variance, rtol=1e-10)
        assert (atoms.share == 1.0).all()


def test_network_without_variances_gives_the_output_of_its_plain_layers():
    """A source of a torch module and its twin: plain [weight, bias] is W / sqrt(c)."""
    rng = np.random.default_rng(0)
    plain = [rng.normal(size=s) for s in ((5, 4), (3, 6), (1, 4))]
    means = tuple(scaled_layers(plain))
    weights = Weights(means, tuple(np.zeros_like(m) for m in means))
    x = rng.normal(size=(30, 3))
    h = x
    for level, layer in enumerate(plain):
        h = h @ layer[:, :-1].T + layer[:, -1]
        h = np.maximum(h, 0.0) if level < 2 else h
    moments = output_moments(weights, x)
    np.testing.assert_allclose(moments.mean, h, atol=1e-6)


def test_fresh_beliefs_have_the_prior_variances():
    fresh = fresh_belief((6, 50, 1), rng=np.random.default_rng(0))
    assert [m.shape for m in fresh.weights.means] == [(50, 7), (1, 51)]
    assert all((v == 1.2).all() for v in fresh.weights.variances)
    assert abs(np.std(fresh.weights.means[0]) * np.sqrt(7) - 1.0) < 0.1
    centres = [np.ones((4, 3)), np.ones((1, 5))]
    around = belief_around(centres, (0.1, 0.3))
    np.testing.assert_allclose(around.weights.means[0], np.sqrt(3) * np.ones((4, 3)))
    assert [g.variance for g in around.precisions] == pytest.approx([0.1, 0.3])
    assert around.prior.group == (0, 1)
    assert fresh.likelihood is None and around.likelihood is None
