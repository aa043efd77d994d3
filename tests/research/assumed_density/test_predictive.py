"""The predictive distribution with and without an atom: quadrature, draws, a root finder."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from bandgap.research.assumed_density.belief import Gamma, fresh_belief
from bandgap.research.assumed_density.predictive import predict
from tests.research.assumed_density.test_moments import random_weights, sampled


def belief_of(weights, noise):
    return replace(
        fresh_belief((3, 3, 1), biased=weights.biased, rng=np.random.default_rng(0)),
        weights=weights,
        noise=noise,
    )


@pytest.fixture(params=[True, False], ids=["normal", "mixture"])
def predictive(request):
    weights = random_weights((3, 3, 1), biased=request.param, seed=5, spread=2.0)
    x = np.array([[-0.9, 0.3, 0.5], [0.4, 0.1, -0.2]])
    return predict(belief_of(weights, Gamma(8.0, 0.7)), x, atoms=True, y_mean=20.0, y_sd=3.0)


def test_density_has_the_reported_mean_and_variance(predictive):
    for row in range(2):

        def moment(power, row=row):
            both = np.zeros(2)

            def integrand(y):
                both[:] = y
                return (y - predictive.mean[row]) ** power * np.exp(
                    predictive.log_density(both)[row]
                )

            return quad(
                integrand, -60.0, 100.0, points=[20.0, predictive.slab_mean[row]], limit=400
            )[0]

        assert moment(0) == pytest.approx(1.0, abs=1e-7)
        assert moment(1) == pytest.approx(0.0, abs=1e-6)
        assert moment(2) == pytest.approx(predictive.variance[row], rel=1e-6)


@pytest.mark.parametrize("probability", [0.01, 0.05, 0.5, 0.95])
def test_quantiles_are_those_of_a_root_finder(predictive, probability):
    for row in range(2):
        exact = brentq(
            lambda y, row=row: predictive.cdf(np.full(2, y))[row] - probability,
            -100.0,
            200.0,
            xtol=1e-12,
        )
        assert predictive.quantile(probability)[row] == pytest.approx(exact, abs=1e-9)


def test_mean_of_a_narrow_network_is_that_of_its_draws_and_not_of_the_slab():
    weights = random_weights((3, 3, 1), biased=False, seed=5, spread=2.0)
    weights.means[1][:] = 3.0
    x = np.array([-0.9, 0.3, 0.5])
    predictive = predict(belief_of(weights, Gamma()), x[None], atoms=True, y_mean=2.0, y_sd=3.0)
    draws = 2.0 + 3.0 * sampled(weights, x, draws=400_000, seed=1)
    assert abs(predictive.mean[0] - draws.mean()) < 4 * draws.std() / np.sqrt(400_000)
    assert abs(predictive.slab_mean[0] - draws.mean()) > 20 * draws.std() / np.sqrt(400_000)
