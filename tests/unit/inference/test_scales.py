"""The joint prior of the scales: its draws follow its density, its Jacobians are right, no global random state."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.scales import ScalePrior, layer_weights, relative_scales, sigma_of, tau_of
from bandgap.priors import penalized_complexity as pcp

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
ALPHA = torch.from_numpy(np.exp(np.random.default_rng(0).normal([3.0, 1.0, 0.5], 0.4, size=(25, 3))))


def prior_of(*, lam=1.0, noise_b=0.3, c0=1.0):
    return ScalePrior(ALPHA, lam, noise_b, c0)


def draws_of(prior, n=4000, seed=0):
    return prior.draw(n, generator=torch.Generator().manual_seed(seed))


def test_layer_weights_of_draws_are_dirichlet():
    c = layer_weights(draws_of(prior_of())).numpy()
    np.testing.assert_allclose(c.sum(axis=1), 1.0)
    for layer in range(3):  # the margin of Dirichlet(1, 1, 1)
        assert stats.kstest(c[:, layer], stats.beta(1, 2).cdf).pvalue > FALSE_ALARM / 3


@pytest.mark.parametrize("c0", [0.3, 4.0])
def test_layer_weights_follow_the_dirichlet_parameter(c0):
    c = layer_weights(draws_of(prior_of(c0=c0), seed=1)).numpy()
    assert stats.kstest(c[:, 0], stats.beta(c0, 2 * c0).cdf).pvalue > FALSE_ALARM


def test_draws_with_a_tiny_dirichlet_parameter_are_finite():
    state = draws_of(prior_of(c0=0.01), seed=2)
    assert bool(torch.isfinite(state).all())


def test_noise_variance_of_draws_is_inverse_gamma_with_mean_b():
    sigma2 = sigma_of(draws_of(prior_of(), seed=3)).numpy() ** 2
    assert stats.kstest(sigma2, stats.invgamma(2.0, scale=0.3).cdf).pvalue > FALSE_ALARM


def test_distance_of_draws_is_exponential():
    state = draws_of(prior_of(lam=2.0), seed=4)
    d = pcp.distance(torch.exp(state[:, 0]), pcp.point_estimate_terms(ALPHA, layer_weights(state)))
    assert stats.kstest(d.numpy(), stats.expon(scale=0.5).cdf).pvalue > FALSE_ALARM


def test_noise_is_drawn_independently_of_the_other_scales():
    state = draws_of(prior_of(), seed=5).numpy()
    for column in (0, 2, 3, 4):
        assert stats.spearmanr(state[:, 1], state[:, column]).pvalue > FALSE_ALARM / 4


@pytest.mark.parametrize("c0", [1.0, 3.0])
def test_draws_satisfy_the_stein_identity_of_the_density(c0):
    """E[d log p / d state_i] = 0 and E[state_i d log p / d state_j] = -delta_ij hold only with every Jacobian right."""
    prior = prior_of(c0=c0)
    state = draws_of(prior, n=20_000, seed=6).requires_grad_(True)
    (slope,) = torch.autograd.grad(prior.log_density(state).sum(), state)
    at = state.detach()
    limit = stats.norm.isf(FALSE_ALARM / 2 / 30)
    products = torch.cat([slope.unsqueeze(1), at.unsqueeze(2) * slope.unsqueeze(1)], 1)  # (draw, 1 + 5, 5)
    expected = torch.cat([torch.zeros(1, 5), -torch.eye(5)]).double()
    score = (products.mean(0) - expected) / (products.std(0) / math.sqrt(20_000))
    assert float(score.abs().max()) < limit


@pytest.mark.parametrize(
    "log_sigma, w", [(0.0, (0.0, 0.0, 0.0)), (-1.0, (1.0, -2.0, 0.5))], ids=["equal weights", "unequal weights"]
)
def test_density_over_log_t_is_that_of_t(log_sigma, w):
    """Normalised on a grid of log t, its distribution function is 1 - exp(-lam d(t))."""
    prior = prior_of(lam=1.5)
    log_t = torch.linspace(-30.0, 5.0, 20_001, dtype=torch.float64)
    state = torch.cat([log_t[:, None], torch.tensor([[log_sigma, *w]]).double().expand(len(log_t), 4)], 1)
    density = prior.log_density(state).exp()
    below = torch.cumulative_trapezoid(density, log_t)
    terms = pcp.point_estimate_terms(ALPHA, torch.softmax(torch.tensor(w).double(), -1))
    expected = 1 - torch.exp(-1.5 * pcp.distance(torch.exp(log_t), terms))
    torch.testing.assert_close(below / below[-1], expected[1:], rtol=0, atol=1e-5)


def test_density_over_log_sigma_is_that_of_an_inverse_gamma_variance():
    prior = prior_of(noise_b=0.7)
    log_sigma = torch.linspace(-4.0, 8.0, 20_001, dtype=torch.float64)
    state = torch.zeros(len(log_sigma), 5, dtype=torch.float64)
    state[:, 1] = log_sigma
    below = torch.cumulative_trapezoid(prior.log_density(state).exp(), log_sigma)
    expected = stats.invgamma(2.0, scale=0.7).cdf(torch.exp(2 * log_sigma[1:]).numpy())
    np.testing.assert_allclose((below / below[-1]).numpy(), expected, atol=1e-5)


def test_density_over_the_redundant_direction_of_w_is_proper():
    """Shifting every w leaves c as it is; the density of the shift is that of the logarithm of Gamma(3 c0, 1)."""
    prior = prior_of(c0=1.3)
    shift = torch.linspace(-12.0, 6.0, 20_001, dtype=torch.float64)
    state = torch.zeros(len(shift), 5, dtype=torch.float64)
    state[:, 2:] = shift[:, None] - math.log(3.0)
    below = torch.cumulative_trapezoid(prior.log_density(state).exp(), shift)
    np.testing.assert_allclose((below / below[-1]).numpy(), stats.gamma(3.9).cdf(np.exp(shift[1:].numpy())), atol=1e-5)


@pytest.mark.parametrize("c0", [0.5, 1.0, 3.0])
def test_closed_form_gradient_agrees_with_autograd(c0):
    prior = prior_of(lam=0.8, c0=c0)
    state = draws_of(prior, n=200, seed=9).requires_grad_(True)
    expected = prior.log_density(state)
    (slope,) = torch.autograd.grad(expected.sum(), state)
    with torch.no_grad():
        value, gradient = prior.log_density_and_gradient(state)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, slope, rtol=1e-8, atol=1e-10)


def test_relative_scales_sigma_and_tau_belong_together():
    state = draws_of(prior_of(), n=7)
    tau_c = tau_of(state)[:, None] * layer_weights(state)
    torch.testing.assert_close((relative_scales(state) * sigma_of(state)[:, None]) ** 2, tau_c)


def test_draws_repeat_with_the_generator_and_leave_the_global_state_alone():
    before = torch.get_rng_state()
    first = draws_of(prior_of(), n=5, seed=8)
    torch.manual_seed(12345)
    second = draws_of(prior_of(), n=5, seed=8)
    assert torch.equal(first, second)
    torch.set_rng_state(before)
    draws_of(prior_of(), n=5)
    assert torch.equal(before, torch.get_rng_state())
