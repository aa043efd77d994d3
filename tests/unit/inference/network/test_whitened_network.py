"""Row space, integrated output layer and gradients agree with plain definitions."""

import math
from dataclasses import replace

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
from tests.unit.inference.network.problems import CPU, draw_z, network, plain, raw, scales_at, slope

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
SIGMA = torch.tensor([0.5, 1.3], dtype=torch.float64)


def scales_of(s, sigma=SIGMA):
    return Scales(s, (s[:, -1] / sigma) ** 2, sigma)


SCALES = scales_of(torch.tensor([[0.4, 0.3, 0.2], [1.1, 0.7, 0.9]], dtype=torch.float64))
RHO = SCALES.rho
SHAPES = pytest.mark.parametrize(
    "n, p", [(6, 9), (9, 5)], ids=["more inputs than rows", "more rows than inputs"]
)


def integrated(net, z, scales=SCALES):
    return integrate_output(net, hidden_features(net, z, scales), scales)


@SHAPES
def test_row_space_basis_is_orthonormal_and_reproduces_the_inputs(n, p):
    theta_hat, x, y = raw(n, p)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    wide = torch.cat([x, torch.ones(n, 1)], 1)
    r = min(n, p + 1)
    assert net.inputs.shape == (n, r)
    torch.testing.assert_close(
        net.basis.T @ net.basis, torch.eye(r, dtype=torch.float64), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(net.inputs @ net.basis.T, wide, rtol=0, atol=1e-12)
    torch.testing.assert_close(net.base, wide @ theta_hat[0].T)


@SHAPES
def test_hidden_features_are_those_of_the_full_network(n, p):
    """Anything orthogonal to the rows may be added to theta_1 = theta_hat_1 + s_1 z_1 basis'."""
    theta_hat, x, y = raw(n, p)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    z = draw_z(net, 2)
    outside = torch.eye(p + 1, dtype=torch.float64) - net.basis @ net.basis.T
    noise = (
        torch.randn(4, p + 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        @ outside
    )
    s = SCALES.s[:, :, None, None]
    theta = [theta_hat[0] + s[:, 0] * z[0] @ net.basis.T + noise, theta_hat[1] + s[:, 1] * z[1]]
    hidden = hidden_features(net, z, SCALES)
    output = theta_hat[2].expand(2, 1, 4)
    torch.testing.assert_close(
        (hidden.features @ output.mT).squeeze(-1), plain([*theta, output], x)
    )


def test_log_likelihood_is_the_density_of_the_dense_normal():
    net = network(7, 5)
    z = draw_z(net, 2)
    h = hidden_features(net, z, SCALES).features
    value = integrated(net, z).log_likelihood
    for chain in range(2):
        mean = h[chain] @ net.theta_hat[-1].reshape(-1)
        covariance = SIGMA[chain] ** 2 * (torch.eye(7) + RHO[chain] * h[chain] @ h[chain].T)
        expected = stats.multivariate_normal(mean.numpy(), covariance.numpy()).logpdf(net.y.numpy())
        assert float(value[chain]) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("rho", [1e-14, 1e10], ids=["frozen output layer", "free output layer"])
def test_log_likelihood_is_exact_at_extreme_scales_of_the_output(rho):
    """Against a sum over eigenvalues of HH', which stays exact where the dense inverse does not."""
    net = network(7, 5)
    z = draw_z(net, 2)
    h = hidden_features(net, z, SCALES).features
    residual = net.y - h @ net.theta_hat[-1].reshape(-1)
    u, singular, _ = torch.linalg.svd(h, full_matrices=True)
    eigenvalues = torch.nn.functional.pad(singular**2, (0, 7 - singular.shape[1]))
    eigenvalues = torch.where(
        eigenvalues > 1e-20 * eigenvalues[:, :1], eigenvalues, torch.zeros_like(eigenvalues)
    )
    spread = SIGMA[:, None] ** 2 * (1 + rho * eigenvalues)
    along = (u.mT @ residual.unsqueeze(-1)).squeeze(-1)
    expected = -0.5 * (torch.log(2 * math.pi * spread) + along**2 / spread).sum(-1)
    value = integrated(
        net, z, replace(SCALES, rho=torch.full((2,), rho, dtype=torch.float64))
    ).log_likelihood
    # the tolerance allows for cancellation in |r|^2 - rho r'H B^-1 H'r
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=0)


def test_output_draws_have_the_mean_and_covariance_of_the_conditional():
    """Bayesian linear regression with prior N(theta_hat, sigma^2 rho I), solved densely."""
    net = network(7, 5)
    z = draw_z(net, 2)
    output = integrated(net, z)
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([draw_output(output, SCALES, generator=generator) for _ in range(20_000)])
    h = output.features
    precision = (torch.eye(4) / RHO[:, None, None] + h.mT @ h) / SIGMA[:, None, None] ** 2
    start = net.theta_hat[-1].reshape(-1)
    pull = (start / (RHO * SIGMA**2)[:, None]) + (h.mT @ net.y.unsqueeze(-1)).squeeze(-1) / SIGMA[
        :, None
    ] ** 2
    mean = torch.linalg.solve(precision, pull)
    torch.testing.assert_close(output.mean, mean)
    # N(0, I) if mean and covariance are right
    whitened = ((draws - mean).unsqueeze(-2) @ torch.linalg.cholesky(precision)).squeeze(-2)
    assert stats.kstest(whitened.flatten().numpy(), "norm").pvalue > FALSE_ALARM
    products = (whitened.unsqueeze(-1) * whitened.unsqueeze(-2)).mean(0) - torch.eye(4)
    sd = torch.ones(4, 4) + torch.eye(4)  # variance of a product of two normals, of a square
    score = torch.cat([products / sd.sqrt(), whitened.mean(0).unsqueeze(-1)], -1) * math.sqrt(
        20_000
    )
    assert float(score.abs().max()) < stats.norm.isf(FALSE_ALARM / 2 / 40)


def test_gradient_by_z_is_that_of_automatic_differentiation():
    net = network(7, 5)
    z = [q.requires_grad_(True) for q in draw_z(net, 2)]
    hidden = hidden_features(net, z, SCALES)
    output = integrate_output(net, hidden, SCALES)
    expected = torch.autograd.grad(output.log_likelihood.sum(), z)
    with torch.no_grad():
        result = gradient(net, z, SCALES, hidden, output)
    for a, b in zip(result, expected, strict=True):
        assert float(b.abs().max()) > 1e-3
        torch.testing.assert_close(a, b)


def test_scale_gradient_is_that_of_central_differences():
    """By log s_l^2 of the sampled layers, log rho and log sigma, each with the others fixed."""
    net = network(7, 5)
    z = draw_z(net, 2)

    at = torch.tensor([[-1.5, -0.6, -1.0, -0.9], [0.3, 0.4, -0.2, 0.7]], dtype=torch.float64)
    scales = scales_at(at)
    output = integrated(net, z, scales)
    by_z = gradient(net, z, scales, hidden_features(net, z, scales), output)
    result = scale_gradient(net, z, by_z, output, scales)
    expected = slope(lambda a: integrated(net, z, scales_at(a)).log_likelihood, at)
    torch.testing.assert_close(result.by_log_square, expected[:, :3], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(result.by_log_sigma, expected[:, 3], rtol=1e-6, atol=1e-6)


def test_hidden_without_marked_chains_clears_only_these():
    net = network(7, 5)
    hidden = hidden_features(net, draw_z(net, 2), SCALES)
    hidden.features[1, 0, 0] = torch.nan
    cleared = hidden.without(torch.tensor([False, True]))
    assert not any(bool(h[1].any()) for h in cleared.inputs[1:])
    assert torch.equal(cleared.features[0], hidden.features[0])
    assert all(torch.equal(a[0], b[0]) for a, b in zip(cleared.inputs, hidden.inputs, strict=True))
    assert bool(torch.isnan(hidden.features[1, 0, 0]))
