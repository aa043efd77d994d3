"""Properties of every prior of scales: Jacobians, gradients, draws, starts, and maps of states."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.pcp_scales import point_estimate_scales, variational_scales
from bandgap.inference.network.scales import ScaleGradient
from tests.unit.inference.network.problems import CPU, draws_of, slope

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
ALPHA = torch.from_numpy(
    np.exp(np.random.default_rng(0).normal([3.0, 1.0, 0.5], 0.4, size=(25, 3)))
)
PRIORS = {
    "point estimate": point_estimate_scales(ALPHA, noise_b=0.3),
    "point estimate, c0 = 3": point_estimate_scales(ALPHA, lam=0.7, noise_b=0.3, c0=3.0),
    "variational": variational_scales((40, 12, 3), noise_b=0.3, device=CPU),
    "variational, c0 = 0.5": variational_scales(
        (40, 12, 3), lam=0.1, noise_b=0.3, c0=0.5, device=CPU
    ),
    "inverse gamma": InverseGammaScales(0.3, torch.ones(3).double()),
    "inverse gamma, shape 3": InverseGammaScales(0.3, torch.ones(3).double(), shape=3.0, scale=0.4),
}
every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
FREE = {name: prior for name, prior in PRIORS.items() if prior.scales_are_free}


@every_prior
def test_draws_satisfy_the_stein_identity_of_the_density(prior):
    """E[d log p / d state_i] = 0 and E[state_i d log p / d state_j] = -delta_ij."""
    state = draws_of(prior, n=20_000, seed=6).requires_grad_(True)
    (gradient,) = torch.autograd.grad(prior.log_density(state).sum(), state)
    at = state.detach()
    width = state.shape[1]
    products = torch.cat([gradient.unsqueeze(1), at.unsqueeze(2) * gradient.unsqueeze(1)], 1)
    expected = torch.cat([torch.zeros(1, width), -torch.eye(width)]).double()
    score = (products.mean(0) - expected) / (products.std(0) / math.sqrt(20_000))
    assert float(score.abs().max()) < stats.norm.isf(FALSE_ALARM / 2 / score.numel())


@every_prior
def test_closed_form_gradient_agrees_with_autograd(prior):
    state = draws_of(prior, n=200, seed=9).requires_grad_(True)
    expected = prior.log_density(state)
    (gradient,) = torch.autograd.grad(expected.sum(), state)
    with torch.no_grad():
        value, closed_form = prior.log_density_and_gradient(state)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(closed_form, gradient, rtol=1e-8, atol=1e-10)


@every_prior
def test_gradient_by_the_scales_becomes_that_by_the_state(prior):
    """The reference are central differences of a function of s_l, rho and sigma."""
    # slopes by log s_1^2, log s_2^2 and log rho
    a = torch.tensor([0.7, -1.1, 0.4], dtype=torch.float64)
    state = draws_of(prior, n=20, seed=3)

    def value(at):
        scales = prior.scales(at)
        logs = torch.cat([2 * torch.log(scales.s[:, :-1]), torch.log(scales.rho)[:, None]], 1)
        return logs @ a + 0.3 * torch.log(scales.sigma)

    by_scales = ScaleGradient(a.expand(20, 3), torch.full((20,), 0.3).double())
    torch.testing.assert_close(
        prior.by_state(state, by_scales), slope(value, state), rtol=1e-6, atol=1e-7
    )


@every_prior
def test_scale_of_the_output_layer_is_rho_in_units_of_the_noise(prior):
    scales = prior.scales(draws_of(prior, n=50))
    torch.testing.assert_close(scales.rho, (scales.s[:, -1] / scales.sigma) ** 2)


@every_prior
def test_noise_variance_of_draws_is_inverse_gamma_with_mean_b_and_independent(prior):
    state = draws_of(prior, seed=3)
    sigma = prior.scales(state).sigma
    assert stats.kstest(sigma.numpy() ** 2, stats.invgamma(2.0, scale=0.3).cdf).pvalue > FALSE_ALARM
    (sigma_column,) = [
        i for i in range(state.shape[1]) if torch.equal(torch.exp(state[:, i]), sigma)
    ]
    for column in set(range(state.shape[1])) - {sigma_column}:
        assert stats.spearmanr(sigma, state[:, column]).pvalue > FALSE_ALARM / state.shape[1]


@every_prior
def test_starts_are_moderate_with_the_noise_of_the_labels(prior):
    state = prior.start(50, log_sd=math.log(2.0), generator=torch.Generator().manual_seed(0))
    scales = prior.scales(state)
    assert bool(torch.isfinite(prior.log_density(state)).all())
    torch.testing.assert_close(scales.sigma, torch.full((50,), 2.0 * math.exp(-0.7)).double())
    assert float(prior.tau_and_weights(state)[0].max()) < 20.0
    assert len({tuple(row) for row in state.tolist()}) == 50


@every_prior
def test_judged_quantities_are_logarithms_and_shares_of_tau(prior):
    state = draws_of(prior, n=12).reshape(3, 4, -1)
    judged = prior.judged(state.numpy())
    (tau, c) = prior.tau_and_weights(state)
    assert tau.shape == (3, 4) and c.shape == (3, 4, 3)
    torch.testing.assert_close(c.sum(-1), torch.ones(3, 4).double())
    assert judged["sigma"].shape == (3, 4)
    if "tau" in judged:
        np.testing.assert_allclose(np.exp(judged["tau"]), tau)
        np.testing.assert_array_equal(judged["c2"], c[..., 1])
    else:
        np.testing.assert_allclose(np.exp(judged["tau3"]), (tau[..., None] * c)[..., 2])


@pytest.mark.parametrize("prior", FREE.values(), ids=FREE)
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_scaling_a_layer_moves_its_scale_alone_and_keeps_volume(prior, layer):
    state = draws_of(prior, n=6)
    factor = torch.linspace(-1.0, 1.5, 6).double()
    before = prior.scales(state)
    after = prior.scales(prior.with_layer_scaled(state, layer, factor))
    expected = before.s.clone()
    expected[:, layer] *= torch.exp(factor)
    torch.testing.assert_close((after.s, after.sigma), (expected, before.sigma))
    jacobian = torch.autograd.functional.jacobian(
        lambda at: prior.with_layer_scaled(at[None], layer, factor[:1])[0], state[0]
    )
    assert abs(float(torch.linalg.det(jacobian))) == pytest.approx(1.0)


def test_scales_of_the_variational_prior_are_not_free():
    """They are never below the source's standard deviations."""
    assert set(PRIORS) - set(FREE) == {"variational", "variational, c0 = 0.5"}
    assert float(PRIORS["variational"].scales(draws_of(PRIORS["variational"])).s.min()) >= 1.0


@every_prior
def test_one_state_in_plain_numbers_is_the_same(prior):
    by_log_square = [0.7, -1.1, 0.4]
    by_log_sigma = 0.3
    states = draws_of(prior, n=50, seed=4)
    scales = prior.scales(states)
    (value, gradient) = prior.log_density_and_gradient(states)
    by_scales = ScaleGradient(
        torch.tensor(by_log_square).double().expand(50, 3), torch.full((50,), 0.3).double()
    )
    by_state = prior.by_state(states, by_scales)
    for i, state in enumerate(states.numpy()):
        plain = prior.plain_scales(state)
        plain_values = torch.tensor([*plain.s, plain.rho, plain.sigma]).double()
        torch.testing.assert_close(
            plain_values, torch.tensor([*scales.s[i], scales.rho[i], scales.sigma[i]]).double()
        )
        plain_value, plain_gradient = prior.plain_density(state)
        assert plain_value == pytest.approx(float(value[i]), rel=1e-12)
        torch.testing.assert_close(torch.from_numpy(plain_gradient), gradient[i])
        plain_by_state = prior.plain_by_state(state, by_log_square, by_log_sigma)
        torch.testing.assert_close(torch.from_numpy(plain_by_state), by_state[i])
