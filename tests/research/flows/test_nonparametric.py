"""The nonparametric posterior of a flow: weights, base measures and closed forms."""

import math

import numpy as np
import pytest
import torch

from bandgap.inference.base_measure import BaseMeasure, dirichlet_weights
from bandgap.research.flows.nonparametric import (
    base_posterior,
    log_density,
    weighted_loss,
)
from benchmarks.studies.flow_posteriors import base_draws


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal_rows(n: int, d: int, *, seed: int = 0, mean: float = 0.0) -> torch.Tensor:
    return mean + torch.randn(n, d, generator=generator(seed), dtype=torch.float64)


def test_weights_sum_to_one_and_share_the_mass_as_the_dirichlet_process_does() -> None:
    weights = dirichlet_weights(50, 500, alpha=100.0, n_draws=4_000, generator=generator())
    assert float((weights.sum(1) - 1).abs().max()) < 1e-12
    mass = weights[:, 50:].sum(1)
    standard_error = math.sqrt((2 / 3) * (1 / 3) / 151 / 4_000)
    assert abs(float(mass.mean()) - 2 / 3) < 5 * standard_error


@pytest.mark.parametrize("alpha", [0.0, 100.0])
def test_closed_form_of_the_base_mean_is_that_of_the_samples(alpha: float) -> None:
    """4,000 draws of the weights over the same rows, with fresh pseudo-observations each."""
    rows = normal_rows(100, 3)
    base = BaseMeasure(alpha, rows=normal_rows(5_000, 3, seed=1, mean=0.5) if alpha else None)
    random = generator(2)
    draws = base_draws(
        rows,
        lambda: base.draw(rows, generator=random),
        alpha=alpha,
        n_draws=4_000,
        generator=random,
    )
    pseudo = base.draw(rows, generator=random)
    is_row = torch.ones(1, 100, dtype=torch.bool)
    closed = base_posterior(rows[None], is_row, pseudo[None], alpha=alpha)
    sampled = torch.cov(draws.T)
    ratios = torch.diagonal(closed.covariance[0]) / torch.diagonal(sampled)
    np.testing.assert_allclose(ratios.numpy(), 1.0, atol=0.1)


def test_endless_weight_of_a_normal_base_gives_its_mean() -> None:
    rows = normal_rows(40, 2, mean=3.0)
    base = BaseMeasure(1e6)
    pseudo = base.draw(rows, generator=generator())[:5_000]
    is_row = torch.ones(1, 40, dtype=torch.bool)
    closed = base_posterior(rows[None], is_row, pseudo[None], alpha=1e6)
    standard_errors = rows.std(0) / math.sqrt(5_000)
    assert bool(((closed.mean[0] - rows.mean(0)).abs() < 3 * standard_errors).all())


def test_normal_base_measure_has_mean_and_covariance_of_the_rows() -> None:
    mixing = torch.tensor([[1.0, 0.8], [0.0, 0.3]], dtype=torch.float64)
    rows = normal_rows(300, 2) @ mixing + 2.0
    drawn = BaseMeasure(5_000.0).draw(rows, generator=generator(3))
    assert len(drawn) == 50_000
    np.testing.assert_allclose(drawn.mean(0).numpy(), rows.mean(0).numpy(), atol=0.02)
    np.testing.assert_allclose(torch.cov(drawn.T).numpy(), torch.cov(rows.T).numpy(), atol=0.03)


def test_density_averaged_over_the_base_mean_is_that_of_a_wider_normal() -> None:
    rows = normal_rows(20, 2)
    is_row = torch.ones(1, 20, dtype=torch.bool)
    posterior = base_posterior(rows[None], is_row, rows[None, :0], alpha=0.0)
    points = normal_rows(5, 2, seed=4)
    expected = torch.distributions.MultivariateNormal(
        posterior.mean[0], torch.eye(2) + posterior.covariance[0]
    ).log_prob(points)
    actual = posterior.log_density(points[None], torch.zeros(1, 5, dtype=torch.float64))
    np.testing.assert_allclose(actual[0].numpy(), expected.numpy(), atol=1e-12)


def test_loss_of_equal_weights_is_the_negative_mean_log_likelihood() -> None:
    u = normal_rows(30, 3)[None]
    log_det = torch.rand(1, 30, dtype=torch.float64)
    loss = weighted_loss(u, log_det, torch.full((1, 30), 1 / 30, dtype=torch.float64))
    expected = -log_density(u, log_det, u.mean(1), None).mean()
    assert abs(float(loss[0] - expected)) < 1e-10


def test_gradient_of_the_loss_holds_the_mean_fixed_without_a_difference() -> None:
    """The mean is the minimiser, so that its own derivative does not contribute."""
    u = normal_rows(12, 2)[None].requires_grad_(True)
    weights = torch.full((1, 12), 1 / 12, dtype=torch.float64)
    weighted_loss(u, torch.zeros(1, 12).double(), weights).sum().backward()
    held_fixed = u.grad
    free = u.detach().clone().requires_grad_(True)
    mean = (weights[:, :, None] * free).sum(1, keepdim=True)
    (0.5 * weights * ((free - mean) ** 2).sum(-1)).sum().backward()
    assert held_fixed is not None and free.grad is not None
    np.testing.assert_allclose(held_fixed.numpy(), free.grad.numpy(), atol=1e-14)
