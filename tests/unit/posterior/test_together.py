"""Draws for several requests at once: to the last bit those of each alone, whatever kind of posterior it is."""

from dataclasses import replace

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


def requests(p: int) -> list[np.ndarray]:
    """Return features (n, p) of requests of these sizes, most of them zero, as those of structures are."""
    rng = np.random.default_rng(5)
    return [rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.3) for n in SIZES]


def assert_as_alone(posterior: Posterior, asked: list[np.ndarray]) -> None:
    for together, features in zip(draws_together(posterior, asked), asked, strict=True):
        alone = posterior.predictive_draws(features)
        for name in ("means_eV", "centres_eV", "sds_eV"):
            found, expected = getattr(together, name), getattr(alone, name)
            np.testing.assert_array_equal(found, expected, err_msg=name)
            assert found.flags.c_contiguous and found.shape == expected.shape


def test_network_evaluates_all_requests_in_one_pass(basis, monkeypatch):
    posterior = network_posterior(basis)
    passes = []
    evaluate = NetworkPosterior._evaluate

    def noted(self, x):
        passes.append(len(x))
        return evaluate(self, x)

    monkeypatch.setattr(NetworkPosterior, "_evaluate", noted)
    asked = requests(posterior.theta_hat_1.shape[1] - 1)
    draws_together(posterior, asked)
    assert passes == [sum(SIZES)]
    assert_as_alone(posterior, asked)


def test_mixture_and_line_of_networks_are_shared_too(basis):
    posterior = network_posterior(basis)
    asked = requests(posterior.theta_hat_1.shape[1] - 1)
    mixture = PosteriorMixture((posterior, network_posterior(basis, seed=4)), Diagnostics())
    line = BaselinePosterior(mixture, Baseline(asked[0].shape[1], 0.9, 0.05, 3.0), seed=2)
    assert_as_alone(mixture, asked)
    rng = np.random.default_rng(1)
    assert_as_alone(line, [np.hstack([x, rng.normal(3.0, 1.0, (len(x), 1))]) for x in asked])


def test_mixture_with_products_of_matrices_is_shared_too(basis):
    last = last_layer_posterior(draws=5)
    asked = requests(last.standardiser.x_mean.size)
    assert_as_alone(last, asked)
    assert_as_alone(PosteriorMixture((network_posterior(basis), last), Diagnostics()), asked)


@pytest.mark.parametrize("sizes", [(), (3,)])
def test_none_and_one_request(basis, sizes):
    posterior = network_posterior(basis)
    asked = [
        features[:n]
        for features, n in zip(
            requests(posterior.theta_hat_1.shape[1] - 1)[-1:], sizes, strict=False
        )
    ]
    assert len(draws_together(posterior, asked)) == len(sizes)
    assert_as_alone(replace(posterior), asked)
