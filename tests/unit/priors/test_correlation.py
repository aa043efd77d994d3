"""The correlation rule for lam: a closed case, the real network, and what cannot be had."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq

from bandgap.foundation.errors import ConfigError
from bandgap.networks.perceptron import NetworkConfig, forward, init_params, layer_gradient_norms
from bandgap.priors.correlation import OutputVariance, rate_for_correlation
from bandgap.priors.penalized_complexity import inverse_distance, point_estimate_terms


def of_point_estimate(alpha):
    n = alpha.shape[0]
    return alpha, alpha.new_full((n,), 1.0 / n), OutputVariance(alpha.new_zeros(n), alpha, 1.0)


def rate(correlation, case, *, c0=1.0, seed=0):
    return rate_for_correlation(
        correlation, *case, c0=c0, generator=torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("correlation", [0.3, 0.5, 0.8])
def test_rate_where_all_inputs_and_layers_are_alike_is_that_of_one_dimensional_quadrature(
    correlation,
):
    """sqrt(phi(x)) ~ Exp(lam) for x = t alpha and any c; the correlation is that of V = E[x]."""

    def mean(lam):
        def integrand(u):
            x = math.exp(u)
            d = math.sqrt(x - math.log1p(x))
            return x * math.exp(-lam * d) * lam * (x / (1 + x)) / (2 * d) * x

        return quad(integrand, -8.0, 14.0, limit=300)[0]

    v = correlation**2 / (1 - correlation**2)
    expected = math.exp(brentq(lambda u: mean(math.exp(u)) - v, -2.0, 4.0))
    lam = rate(correlation, of_point_estimate(torch.full((6, 3), 7.0, dtype=torch.float64)))
    assert lam == pytest.approx(expected, rel=0.02)  # 200 mid-quantiles cut the tail of tau
    if correlation == 0.5:
        assert expected == pytest.approx(5.08, abs=0.01)


def test_network_drawn_from_the_prior_has_the_wanted_correlation_with_its_labels():
    """4,000 networks at 12 inputs, weights from the prior at the rate, without linearisation."""
    generator = torch.Generator().manual_seed(1)
    params = init_params(NetworkConfig(5, (12, 6)), generator=generator, dtype=torch.float64)
    x = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    alpha = layer_gradient_norms(params, x)
    lam = rate(0.5, of_point_estimate(alpha))
    draws = 4000
    sigma = 0.4
    c = torch._sample_dirichlet(torch.ones(draws, 3, dtype=torch.float64), generator=generator)
    exponential = -torch.log(torch.rand(draws, generator=generator, dtype=torch.float64))
    tau = sigma**2 * inverse_distance(exponential / lam, point_estimate_terms(alpha, c))
    drawn = {}
    for name, value in params.items():
        scale = torch.sqrt(tau * c[:, int(name[-1]) - 1]).reshape(-1, *[1] * value.ndim)
        drawn[name] = value + scale * torch.randn(
            draws, *value.shape, generator=generator, dtype=torch.float64
        )
    f = forward(drawn, x)
    y = f + sigma * torch.randn(f.shape, generator=generator, dtype=torch.float64)
    correlations = [float(np.corrcoef(f[:, j], y[:, j])[0, 1]) for j in range(12)]
    # the network is not linear, f is heavy-tailed, and its inputs share their draws
    assert np.mean(correlations) == pytest.approx(0.5, abs=0.05)


def test_rate_falls_as_the_wanted_correlation_rises_and_repeats_with_the_generator():
    alpha = torch.from_numpy(np.exp(np.random.default_rng(0).normal(1.0, 1.0, size=(9, 3))))
    rates = [rate(correlation, of_point_estimate(alpha)) for correlation in (0.2, 0.5, 0.8)]
    assert rates == sorted(rates, reverse=True)
    assert rate(0.5, of_point_estimate(alpha)) == rates[1]
    assert rate(0.5, of_point_estimate(alpha), seed=1) == pytest.approx(rates[1], rel=0.2)


def test_correlation_of_a_base_model_that_is_uncertain_by_itself():
    variance = OutputVariance(torch.tensor([1.0, 3.0]).double(), torch.ones(2, 2).double(), 1.0)
    expected = (math.sqrt(2 / 3) + math.sqrt(4 / 5)) / 2
    assert variance.correlation(torch.tensor([0.5, 0.5]).double()) == pytest.approx(expected)


def test_correlation_below_that_of_the_base_model_is_refused_with_what_to_do():
    slopes = torch.eye(3).double()
    weights = torch.tensor([40.0, 12.0, 3.0]).double()
    variance = OutputVariance(torch.full((4,), 2.0).double(), torch.ones(4, 3).double(), 1.0)
    with pytest.raises(
        ConfigError,
        match=r"no rate between 0.001 and 1000 gives a correlation of 0.5 .*Set lam to a",
    ):
        rate(0.5, (slopes, weights, variance))
    assert 0.001 < rate(0.9, (slopes, weights, variance)) < 1000
