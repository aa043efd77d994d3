"""Draws for several requests together: those of each request alone, for every kind of posterior."""

import numpy as np
import pytest

from bandgap.posterior import BaselinePosterior, Posterior, PosteriorMixture
from bandgap.posterior.baseline import Baseline
from bandgap.posterior.network import NetworkPosterior
from bandgap.posterior.protocol import Diagnostics
from bandgap.posterior.together import draws_together
from tests.unit.posterior.test_posterior import basis, last_layer_posterior, network_posterior

__all__ = ["basis"]
SIZES = (1, 0, 7, 1, 2, 40)


def requests_of(p: int) -> list[np.ndarray]:
    """Return features (n, p) of requests of these sizes, mostly zero as in real structures."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.3) for n in SIZES]


def assert_equal_to_single_requests(posterior: Posterior, requests: list[np.ndarray]) -> None:
    for together, features in zip(draws_together(posterior, requests), requests, strict=True):
        alone = posterior.predictive_draws(features)
        for name in ("means_eV", "centres_eV", "sds_eV"):
            values = getattr(together, name)
            expected = getattr(alone, name)
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6, err_msg=name)
            assert values.flags.c_contiguous
            assert values.shape == expected.shape


def test_network_evaluates_all_requests_in_one_pass(basis, monkeypatch):
    posterior = network_posterior(basis)
    sizes = []
    evaluate = NetworkPosterior._evaluate

    def counted(self, x):
        sizes.append(len(x))
        return evaluate(self, x)

    monkeypatch.setattr(NetworkPosterior, "_evaluate", counted)
    requests = requests_of(posterior.theta_hat_1.shape[1] - 1)
    draws_together(posterior, requests)
    assert sizes == [sum(SIZES)]
    assert_equal_to_single_requests(posterior, requests)


def test_mixture_of_networks_equals_single_requests(basis):
    posterior = network_posterior(basis)
    mixture = PosteriorMixture((posterior, network_posterior(basis, seed=4)), Diagnostics())
    requests = requests_of(posterior.theta_hat_1.shape[1] - 1)
    assert_equal_to_single_requests(mixture, requests)


def test_baseline_with_a_network_equals_single_requests(basis):
    posterior = network_posterior(basis)
    p = posterior.theta_hat_1.shape[1] - 1
    with_baseline = BaselinePosterior(posterior, Baseline(p, 0.9, 0.05, 3.0), seed=2)
    rng = np.random.default_rng(1)
    requests = [np.hstack([x, rng.normal(3.0, 1.0, (len(x), 1))]) for x in requests_of(p)]
    assert_equal_to_single_requests(with_baseline, requests)


def test_last_layer_and_its_mixture_equal_single_requests(basis):
    last_layer = last_layer_posterior(draws=5)
    requests = requests_of(last_layer.standardiser.x_mean.size)
    mixture = PosteriorMixture((network_posterior(basis), last_layer), Diagnostics())
    assert_equal_to_single_requests(last_layer, requests)
    assert_equal_to_single_requests(mixture, requests)


@pytest.mark.parametrize("sizes", [(), (3,)], ids=["no request", "one request"])
def test_fewer_than_two_requests_are_answered(sizes, basis):
    posterior = network_posterior(basis)
    features = requests_of(posterior.theta_hat_1.shape[1] - 1)[-1]
    requests = [features[:n] for n in sizes]
    assert len(draws_together(posterior, requests)) == len(sizes)
    assert_equal_to_single_requests(posterior, requests)
