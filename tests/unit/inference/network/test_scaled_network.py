"""Networks with a prior standard deviation for every weight agree with plain definitions."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.scales import Scales
from bandgap.inference.network.whitened_network import (
    draw_output,
    gradient,
    hidden_features,
    integrate_output,
    scale_gradient,
    whiten,
)
from bandgap.research.shared.scaled_network import whiten_scaled
from tests.unit.inference.network.problems import CPU, draw_z, plain, raw, scales_at, sds_of, slope

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
SIGMA = torch.tensor([0.5, 1.3], dtype=torch.float64)
HIDDEN = pytest.mark.parametrize(
    "hidden", [(3,), (4, 3), (5, 4, 3)], ids=["one hidden layer", "two", "three"]
)


def problem_of(hidden=(4, 3), *, n=7, p=5):
    theta_hat, x, y = raw(n, p, hidden=hidden)
    sd = sds_of(theta_hat)
    return theta_hat, sd, x, y, whiten_scaled(theta_hat, sd, x, y, device=CPU, dtype=torch.float64)


def scales_for(n_layers):
    s = torch.tensor([[1.0, 1.7, 1.2, 1.4], [2.1, 1.1, 1.6, 1.3]], dtype=torch.float64)[
        :, :n_layers
    ]
    return Scales(s, (s[:, -1] / SIGMA) ** 2, SIGMA)


def integrated(net, z, scales):
    return integrate_output(net, hidden_features(net, z, scales), scales)


def natural(theta_hat, sd, z, scales):
    """Return the weights of the sampled layers, theta_hat_l + s_l S_l z_l."""
    return [
        t + scales.s[:, i, None, None] * s * q
        for i, (t, s, q) in enumerate(zip(theta_hat, sd, z, strict=False))
    ]


def last_features(theta, x):
    h = x
    for layer in theta:
        h = torch.relu(torch.cat([h, torch.ones_like(h[..., :1])], -1) @ layer.mT)
    return torch.cat([h, torch.ones_like(h[..., :1])], -1)


@HIDDEN
def test_log_likelihood_is_the_density_of_the_dense_normal(hidden):
    theta_hat, sd, x, y, net = problem_of(hidden)
    z = draw_z(net, 2)
    scales = scales_for(len(theta_hat))
    h = last_features(natural(theta_hat, sd, z, scales), x)
    value = integrated(net, z, scales).log_likelihood
    for chain in range(2):
        spread = scales.s[chain, -1] ** 2 * h[chain] @ torch.diag(sd[-1][0] ** 2) @ h[chain].T
        covariance = SIGMA[chain] ** 2 * torch.eye(7).double() + spread
        expected = stats.multivariate_normal(
            (h[chain] @ theta_hat[-1][0]).numpy(), covariance.numpy()
        ).logpdf(y)
        assert float(value[chain]) == pytest.approx(expected, rel=1e-10)


@HIDDEN
def test_gradient_by_z_is_that_of_automatic_differentiation(hidden):
    _, _, _, _, net = problem_of(hidden)
    z = [q.requires_grad_(True) for q in draw_z(net, 2)]
    scales = scales_for(net.n_layers)
    hidden_state = hidden_features(net, z, scales)
    output = integrate_output(net, hidden_state, scales)
    expected = torch.autograd.grad(output.log_likelihood.sum(), z)
    with torch.no_grad():
        result = gradient(net, z, scales, hidden_state, output)
    assert all(float(g.abs().max()) > 1e-4 for g in expected)
    torch.testing.assert_close(result, list(expected))


def test_scale_gradient_is_that_of_central_differences():
    _, _, _, _, net = problem_of()
    z = draw_z(net, 2)

    at = torch.tensor([[0.5, 0.1, 1.0, -0.9], [0.3, 0.4, -0.2, 0.7]], dtype=torch.float64)
    scales = scales_at(at)
    output = integrated(net, z, scales)
    result = scale_gradient(
        net, z, gradient(net, z, scales, hidden_features(net, z, scales), output), output, scales
    )
    expected = slope(lambda a: integrated(net, z, scales_at(a)).log_likelihood, at)
    torch.testing.assert_close(result.by_log_square, expected[:, :3], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(result.by_log_sigma, expected[:, 3], rtol=1e-6, atol=1e-6)


def test_equal_standard_deviations_are_the_isotropic_network():
    """With S = 1 the likelihood depends on z_1 only through its row-space coordinates."""
    theta_hat, x, y = raw(7, 9)
    ones = [torch.ones_like(t) for t in theta_hat]
    full = whiten_scaled(theta_hat, ones, x, y, device=CPU, dtype=torch.float64)
    reduced = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    z = draw_z(full, 2)
    scales = scales_for(3)
    coordinates = [z[0] @ reduced.basis, *z[1:]]
    torch.testing.assert_close(
        integrated(full, z, scales).log_likelihood,
        integrated(reduced, coordinates, scales).log_likelihood,
    )
    torch.testing.assert_close(full.stored(z), coordinates)


@HIDDEN
def test_stored_draws_have_what_the_first_layer_adds_at_the_training_rows(hidden):
    theta_hat, sd, x, _, net = problem_of(hidden, n=6, p=9)
    z = draw_z(net, 2)
    wide = torch.cat([x, torch.ones(6, 1)], 1)
    stored = net.stored(z)
    assert stored[0].shape == (2, hidden[0], 6)
    torch.testing.assert_close(stored[0] @ (wide @ net.basis).T, (sd[0] * z[0]) @ wide.T)
    assert all(torch.equal(a, b) for a, b in zip(stored[1:], z[1:], strict=True))
    assert theta_hat[0].shape == z[0].shape[1:]


def test_output_draws_times_their_standard_deviations_follow_the_conditional():
    """Bayesian linear regression with prior N(theta_hat, s^2 S^2), solved densely."""
    theta_hat, sd, x, y, net = problem_of()
    z = draw_z(net, 2)
    scales = scales_for(3)
    output = integrated(net, z, scales)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack(
        [sd[-1][0] * draw_output(output, scales, generator=generator) for _ in range(20_000)]
    )
    h = last_features(natural(theta_hat, sd, z, scales), x)
    prior_precision = torch.diag_embed(1.0 / (scales.s[:, -1:] * sd[-1]) ** 2)
    precision = prior_precision + h.mT @ h / SIGMA[:, None, None] ** 2
    pull = (
        prior_precision @ theta_hat[-1][0] + (h.mT @ y[:, None]).squeeze(-1) / SIGMA[:, None] ** 2
    )
    mean = torch.linalg.solve(precision, pull)
    torch.testing.assert_close(sd[-1][0] * output.mean, mean)
    whitened = ((draws - mean).unsqueeze(-2) @ torch.linalg.cholesky(precision)).squeeze(-2)
    assert stats.kstest(whitened.flatten().numpy(), "norm").pvalue > FALSE_ALARM
    products = (whitened.unsqueeze(-1) * whitened.unsqueeze(-2)).mean(0) - torch.eye(4)
    score = products / (torch.ones(4, 4) + torch.eye(4)).sqrt() * math.sqrt(20_000)
    assert float(score.abs().max()) < stats.norm.isf(FALSE_ALARM / 2 / 32)


def test_fitted_values_are_those_of_the_natural_weights():
    theta_hat, sd, x, _, net = problem_of()
    z = draw_z(net, 2)
    scales = scales_for(3)
    weights = torch.from_numpy(np.random.default_rng(3).normal(size=(2, 4)))
    f = (hidden_features(net, z, scales).features @ weights.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(
        f, plain([*natural(theta_hat, sd, z, scales), (sd[-1] * weights)[:, None]], x)
    )
