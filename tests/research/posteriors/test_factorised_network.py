"""The posterior of independent normal weights: exact moments against draws of the weights, noise,
clipping, storing.
"""

import numpy as np
import pytest
from scipy.stats import gamma

from bandgap.networks.standardise import Standardiser
from bandgap.research.assumed_density.belief import Gamma, Weights
from bandgap.research.posteriors.factorised_network import FactorisedNetworkPosterior

P = 3


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    means = (rng.normal(size=(5, P + 1)), rng.normal(size=(1, 6)))
    variances = (rng.uniform(0.05, 0.4, size=(5, P + 1)), rng.uniform(0.05, 0.4, size=(1, 6)))
    scale = Standardiser(np.array([1.0, 0.0, -1.0]), np.array([2.0, 1.0, 0.5]), 3.0, 0.7)
    return FactorisedNetworkPosterior(scale, Weights(means, variances), Gamma(60.0, 12.0), 10.0)


@pytest.fixture
def rows():
    return np.random.default_rng(1).normal(size=(12, P)) * 2.0


def test_draws_of_weights_have_the_mean_and_sd_of_the_closed_form(posterior, rows):
    """One hidden layer: both exact.

    Five standard errors for 24 figures: one false alarm in 70,000 seeds.
    """
    mean, sd = posterior.mean_and_sd_eV(rows)
    draws = posterior.sampled_means_eV(rows, draws=20_000, seed=2)
    assert (np.abs(draws.mean(0) - mean) < 5 * sd / np.sqrt(20_000)).all()
    fourth = np.mean((draws - mean) ** 4, axis=0)
    assert (np.abs(draws.var(0) - sd**2) < 5 * np.sqrt((fourth - sd**4) / 20_000)).all()


def test_draws_of_the_mean_are_quantiles_with_the_same_moments(posterior, rows):
    mean, sd = posterior.mean_and_sd_eV(rows)
    draws = posterior.mean_draws_eV(rows)
    assert draws.shape == (1, posterior.n_draws, 12)
    np.testing.assert_allclose(draws[0].mean(0), mean, rtol=1e-12)
    np.testing.assert_allclose(draws[0].std(0), sd, rtol=0.01)


def test_new_observation_is_one_normal_with_the_variance_of_weights_and_noise(posterior, rows):
    mean, sd = posterior.mean_and_sd_eV(rows)
    draws = posterior.predictive_draws(rows)
    np.testing.assert_allclose(draws.centres_eV, mean[None])
    np.testing.assert_allclose(draws.sds_eV[0] ** 2, sd**2 + 0.7**2 * 12.0 / 59.0)


def test_summaries_contain_quantiles_of_the_noise(posterior):
    sigma = posterior.summaries()["sigma_eV"][0]
    low, high = 0.7 / np.sqrt(gamma.ppf([0.95, 0.05], 60.0, scale=1 / 12.0))
    np.testing.assert_allclose(np.quantile(sigma, [0.05, 0.95]), [low, high], rtol=0.01)
    assert posterior.noise_eV == pytest.approx(0.7 * np.sqrt(12.0 / 59.0))


def test_features_beyond_ten_standard_deviations_predict_as_those_at_ten(posterior):
    far = np.array([[401.0, 0.0, -1.0]])
    at_limit = np.array([[21.0, 0.0, -1.0]])
    for a, b in zip(posterior.mean_and_sd_eV(far), posterior.mean_and_sd_eV(at_limit), strict=True):
        np.testing.assert_allclose(a, b)


def test_predictions_do_not_depend_on_the_other_structures(posterior):
    many = np.random.default_rng(4).normal(size=(2500, P))
    together = posterior.mean_and_sd_eV(many)
    alone = posterior.mean_and_sd_eV(many[2100:2101])
    np.testing.assert_allclose([w[2100] for w in together], [a[0] for a in alone], rtol=1e-12)
