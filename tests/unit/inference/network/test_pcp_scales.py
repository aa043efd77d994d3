"""The scales of BTL-PCP: c is Dirichlet, the distance exponential, the density that of draws."""

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.pcp_scales import point_estimate_scales, variational_scales
from bandgap.priors import penalized_complexity as pcp
from tests.unit.inference.network.problems import CPU, draws_of

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
ALPHA = torch.from_numpy(
    np.exp(np.random.default_rng(0).normal([3.0, 1.0, 0.5], 0.4, size=(25, 3)))
)
SIZES = (40, 12, 3)


def prior_of(*, lam=1.0, noise_b=0.3, c0=1.0):
    return point_estimate_scales(ALPHA, lam=lam, noise_b=noise_b, c0=c0)


def variational_of(*, lam=1.0):
    return variational_scales(SIZES, lam=lam, noise_b=0.3, device=CPU)


def weights_of(state):
    return torch.softmax(state[:, 1:], -1)


def test_layer_weights_of_draws_are_dirichlet():
    c = weights_of(draws_of(prior_of())).numpy()
    np.testing.assert_allclose(c.sum(axis=1), 1.0)
    for layer in range(3):  # the margin of Dirichlet(1, 1, 1)
        assert stats.kstest(c[:, layer], stats.beta(1, 2).cdf).pvalue > FALSE_ALARM / 3


@pytest.mark.parametrize("c0", [0.3, 4.0])
def test_layer_weights_follow_the_dirichlet_parameter(c0):
    c = weights_of(draws_of(prior_of(c0=c0), seed=1)).numpy()
    assert stats.kstest(c[:, 0], stats.beta(c0, 2 * c0).cdf).pvalue > FALSE_ALARM


def test_distance_of_draws_is_exponential():
    state = draws_of(prior_of(lam=2.0), seed=4)
    d = pcp.distance(
        torch.exp(state[:, 1:]).sum(1), pcp.point_estimate_terms(ALPHA, weights_of(state))
    )
    assert stats.kstest(d.numpy(), stats.expon(scale=0.5).cdf).pvalue > FALSE_ALARM


def test_distance_of_variational_draws_is_exponential():
    """The squared distance is 2 KL between the priors of theta at tau and at 0."""
    state = draws_of(variational_of(lam=2.0), seed=4)
    added = torch.exp(state[:, 1:])
    twice_kl = ((added - torch.log1p(added)) * torch.tensor(SIZES).double()).sum(1)
    assert (
        stats.kstest(torch.sqrt(twice_kl).numpy(), stats.expon(scale=0.5).cdf).pvalue > FALSE_ALARM
    )


@pytest.mark.parametrize("case", ["point estimate", "variational"])
@pytest.mark.parametrize(
    "log_sigma, w",
    [(0.0, (0.0, 0.0, 0.0)), (-1.0, (1.0, -2.0, 0.5))],
    ids=["equal weights", "unequal weights"],
)
def test_density_over_the_global_scale_is_that_of_an_exponential_distance(log_sigma, w, case):
    """Normalised on a grid of log t (log tau), its distribution function is 1 - exp(-lam d)."""
    prior = prior_of(lam=1.5) if case == "point estimate" else variational_of(lam=1.5)
    log_scale = torch.linspace(-30.0, 5.0, 20_001, dtype=torch.float64)
    log_c = torch.log_softmax(torch.tensor([w]).double(), -1)
    state = torch.cat(
        [torch.full_like(log_scale, log_sigma)[:, None], log_scale[:, None] + log_c], 1
    )
    density = prior.log_density(state).exp()
    below = torch.cumulative_trapezoid(density, log_scale)
    c = torch.softmax(torch.tensor(w).double(), -1)
    terms = (
        pcp.point_estimate_terms(ALPHA, c)
        if case == "point estimate"
        else pcp.variational_terms(SIZES, c)
    )
    expected = 1 - torch.exp(-1.5 * pcp.distance(torch.exp(log_scale), terms))
    torch.testing.assert_close(below / below[-1], expected[1:], rtol=0, atol=1e-5)


def test_density_over_log_sigma_is_that_of_an_inverse_gamma_variance():
    prior = prior_of(noise_b=0.7)
    log_sigma = torch.linspace(-4.0, 8.0, 20_001, dtype=torch.float64)
    state = torch.zeros(len(log_sigma), 4, dtype=torch.float64)
    state[:, 0] = log_sigma
    below = torch.cumulative_trapezoid(prior.log_density(state).exp(), log_sigma)
    expected = stats.invgamma(2.0, scale=0.7).cdf(torch.exp(2 * log_sigma[1:]).numpy())
    np.testing.assert_allclose((below / below[-1]).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("case", ["point estimate", "variational"])
def test_density_over_two_layers_is_that_of_scale_and_weight_with_its_jacobian(case):
    """On a grid of (a_1, a_2), c_1 is Beta(c0, c0) and the distance exponential, as in draws."""
    c0 = 1.3
    alpha = ALPHA[:, :2]
    prior = (
        point_estimate_scales(alpha, noise_b=0.3, c0=c0)
        if case == "point estimate"
        else variational_scales(SIZES[:2], noise_b=0.3, c0=c0, device=CPU)
    )
    grid = torch.linspace(-35.0, 6.0, 821, dtype=torch.float64)
    a = torch.cartesian_prod(grid, grid)
    mass = prior.log_density(torch.cat([torch.zeros(len(a), 1), a], 1)).exp()
    mass /= mass.sum()
    c = torch.softmax(a, 1)
    scale = torch.exp(a).sum(1)
    for at in (0.1, 0.5, 0.8):
        assert float(mass[c[:, 0] < at].sum()) == pytest.approx(
            stats.beta(c0, c0).cdf(at), abs=0.01
        )
    terms = (
        pcp.point_estimate_terms(alpha, c)
        if case == "point estimate"
        else pcp.variational_terms(SIZES[:2], c)
    )
    distance = pcp.distance(scale, terms)
    for at in (0.2, 1.0, 2.5):
        assert float(mass[distance < at].sum()) == pytest.approx(stats.expon.cdf(at), abs=0.01)


def test_scales_sigma_and_tau_of_the_point_estimate_belong_together():
    prior = prior_of()
    state = draws_of(prior, n=7)
    tau, c = prior.tau_and_weights(state)
    torch.testing.assert_close(prior.scales(state).s ** 2, tau[:, None] * c)


def test_scales_and_tau_of_the_variational_case_belong_together():
    prior = variational_of()
    state = draws_of(prior, n=7)
    tau, c = prior.tau_and_weights(state)
    torch.testing.assert_close(prior.scales(state).s ** 2, 1.0 + tau[:, None] * c)


@pytest.mark.parametrize(
    "prior", [prior_of(lam=2.0, c0=0.8), variational_of(lam=0.1)], ids=["point", "variational"]
)
def test_gradient_in_torch_is_that_of_the_compiled_loop(prior):
    state = prior.draw(200, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(prior.log_density_and_gradient(state), prior._torch_gradient(state))
