"""The Gaussian process: mean and sd of scikit-learn, normal quantiles, and the noise."""

import numpy as np
import pytest
from scipy.special import ndtri

from bandgap.networks.standardise import fit_standardiser
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.predictions.table import LEVELS
from bandgap.transfer.gaussian_process import GaussianProcessConfig, fit
from bandgap.transfer.shared.method import Fitting

ONE_START = GaussianProcessConfig(restarts=0)
NEW = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)


@pytest.fixture
def posterior(source_of, target):
    return fit(source_of(), target, ONE_START, Fitting(0))


def scikit_learns(target, kernel, **settings):
    """Scikit-learn's Gaussian process on the same standardised rows, and new features."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    scale = fit_standardiser(target.features, target.gaps_eV)
    process = GaussianProcessRegressor(kernel, random_state=0, **settings)
    return process.fit(scale.features(target.features), scale.gaps(target.gaps_eV)), scale


def test_mean_and_interval_are_scikit_learns(posterior, target):
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(posterior.variance) * Matern(posterior.length, nu=1.5)
    process, scale = scikit_learns(
        target, kernel + WhiteKernel(posterior.noise_variance), optimizer=None
    )
    mean, sd = process.predict(scale.features(NEW), return_std=True)  # with the noise
    draws = posterior.predictive_draws(NEW)
    np.testing.assert_allclose(draws.centres_eV[0], scale.gaps_eV(mean), atol=1e-6)
    np.testing.assert_allclose(draws.sds_eV[0], scale.y_sd_eV * sd, atol=1e-6)
    latent = posterior.mean_and_sd_eV(NEW)[1]
    np.testing.assert_allclose(np.hypot(latent, posterior.noise_eV), draws.sds_eV[0])
    lower, upper = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.025, 0.975])
    half = ndtri(0.975) * scale.y_sd_eV * sd
    np.testing.assert_allclose(
        [lower, upper], [scale.gaps_eV(mean) - half, scale.gaps_eV(mean) + half], atol=1e-5
    )


def test_scales_are_those_of_the_largest_marginal_likelihood(posterior, target):
    """Scikit-learn's own search with its own kernel of features ends at the same density."""
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(4.0, (0.05, 500.0), nu=1.5) + WhiteKernel(
        0.1, (1e-4, 4.0)
    )
    process, _ = scikit_learns(target, kernel)
    figures = posterior.diagnostics.figures
    assert figures["log_marginal_likelihood"] == pytest.approx(
        process.log_marginal_likelihood_value_, abs=0.01
    )


def test_derivative_of_the_kernel_is_that_of_differences():
    from bandgap.transfer.shared.distance_kernel import MaternOfDistances

    distances = np.abs(np.random.default_rng(0).normal(size=(4, 4)))
    (low, high), step = (MaternOfDistances(np.exp(0.3 + s))(distances) for s in (-1e-6, 1e-6)), 2e-6
    _, derivative = MaternOfDistances(np.exp(0.3))(distances, eval_gradient=True)
    np.testing.assert_allclose(derivative[:, :, 0], (high - low) / step, atol=1e-8)


def test_draws_of_the_mean_have_the_quantiles_of_the_latent_normal(posterior):
    mean, sd = posterior.mean_and_sd_eV(NEW)
    draws = posterior.mean_draws_eV(NEW)[0]
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=1e-12)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.006)
    np.testing.assert_allclose(
        np.quantile(draws, LEVELS, axis=0), mean + np.outer(ndtri(LEVELS), sd), atol=1e-9
    )
