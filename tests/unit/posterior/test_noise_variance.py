"""The noise of a new observation about the mean, for `next_structures`."""

import numpy as np
import pytest

from bandgap.posterior.protocol import LEAST_NOISE_SD_EV, PredictiveDraws, with_noise
from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.method import Fitting

P = 4
NEW = 3.0 * np.random.default_rng(5).normal(size=(6, P)).astype(np.float32)  # partly far


def data() -> TargetData:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, P)).astype(np.float32)
    return TargetData(x, 3.0 + np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=40))


def test_noise_of_draws_is_the_mean_of_their_variances() -> None:
    means = np.random.default_rng(0).normal(size=(1, 2, 5))
    draws = with_noise(means, np.array([[1.0, 3.0]]))
    assert draws.noise_variance == pytest.approx(np.full(5, 5.0))


def test_noise_of_a_gaussian_process_does_not_contain_the_variance_of_the_mean() -> None:
    """It is the fitted noise, also where the mean is uncertain; 201 normal scores."""
    entry = get_method("gaussian_process")
    posterior = entry.fit(None, data(), entry.config(), Fitting(0))
    draws = posterior.predictive_draws(NEW)
    latent = draws.flat_means_eV.var(axis=0)
    assert latent.max() > 10 * posterior.noise_eV**2
    assert draws.noise_variance == pytest.approx(
        np.full(6, posterior.noise_eV**2), abs=0.01 * latent.max()
    )


@pytest.mark.parametrize("method", ["gaussian_process", "kernel_ridge", "random_forest"])
def test_noise_and_variance_of_the_mean_add_up_to_that_of_an_observation(method: str) -> None:
    entry = get_method(method)
    draws = entry.fit(None, data(), entry.config(), Fitting(0)).predictive_draws(NEW)
    of_mean = draws.flat_means_eV.var(axis=0)
    of_observation = draws.centres_eV.var(axis=0) + (draws.wide_sds_eV**2).mean(axis=0)
    # rel: of 201 normal scores, whose variance is 1.004
    assert of_mean + draws.noise_variance == pytest.approx(of_observation, rel=0.006)
    assert (draws.noise_variance >= LEAST_NOISE_SD_EV**2).all()


def test_noise_has_a_lower_limit() -> None:
    draws = PredictiveDraws(np.array([[[0.0], [1.0]]]), np.array([[0.5]]), np.array([0.1]))
    assert draws.noise_variance == pytest.approx([LEAST_NOISE_SD_EV**2])
