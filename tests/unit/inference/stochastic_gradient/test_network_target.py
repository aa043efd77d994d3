"""The network's posterior as a sum over rows: its gradient by autograd, and the law of the units."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.inference.network.whitened_network import whiten
from bandgap.inference.stochastic_gradient.gradients import batch_gradient
from bandgap.inference.stochastic_gradient.mode_search import climb
from bandgap.inference.stochastic_gradient.network_target import network_target
from bandgap.inference.stochastic_gradient.step_size import stiff_metric
from tests.unit.inference.network.problems import CPU, plain, prior_of, raw


@pytest.fixture(scope="module")
def problem():
    theta_hat, x, y = raw(12, 5, hidden=(4, 3))
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    return network_target(net, prior_of(theta_hat, x)), theta_hat, x, y


def positions(target, chains=3, seed=0):
    rng = torch.Generator().manual_seed(seed)
    position = 0.7 * torch.randn(chains, len(target.units), generator=rng, dtype=torch.float64)
    width = target.prior.units.shape[0]
    position[:, -width:] = target.prior.start(chains, log_sd=0.0, generator=rng)
    return position / target.units


def log_posterior(target, theta_hat, x, y, position):
    """Written down plainly: theta from z by the whole first layer, normal labels, normal z, the scales' own density."""
    z, state = target.layers(position), target.state(position)
    scales = target.prior.scales(state)
    moved = [q * scales.s[:, i, None, None] for i, q in enumerate(z)]
    moved[0] = moved[0] @ target.net.basis.T
    theta = [t + m for t, m in zip(theta_hat, moved, strict=True)]
    rest = y - plain(theta, x.expand(len(position), -1, -1))
    sigma = scales.sigma[:, None]
    likelihood = (-0.5 * (rest / sigma) ** 2 - torch.log(sigma) - 0.5 * math.log(2 * math.pi)).sum(1)
    prior = target.prior.log_density(state) - 0.5 * sum((q**2).sum((1, 2)) for q in z)
    return likelihood + prior


@pytest.mark.parametrize("own_units, stiff", [(False, False), (True, False), (True, True)])
def test_full_gradient_is_that_of_the_log_posterior(problem, own_units, stiff):
    target, *parts = problem
    if own_units:
        target = target.in_own_units(positions(target)[:1], torch.arange(12))
        assert 0 < float(target.units.min()) < 0.5 and float(target.units.max()) <= 1
    if stiff:
        target = replace(target, metric=metric_of(target, positions(target)[0], rank=4))
    position = positions(target).requires_grad_()
    (expected,) = torch.autograd.grad(log_posterior(target, *parts, position).sum(), position)
    found = batch_gradient(target, torch.arange(12).expand(3, 12))(position.detach()).total
    np.testing.assert_allclose(found, expected, atol=1e-9 * float(expected.abs().max()))


def metric_of(target, position, *, rank):
    def gradient(at):
        return batch_gradient(target, torch.arange(12).expand(len(at), 12))(at).total

    return stiff_metric(gradient, position, rank=rank, generator=torch.Generator().manual_seed(0), rounds=30)


def test_position_comes_back_through_units_and_metric(problem):
    target, *_ = problem
    at = positions(target)
    target = target.in_own_units(at[:1], torch.arange(12))
    target = replace(target, metric=metric_of(target, at[0], rank=4))
    np.testing.assert_allclose(target.position(target.layers(at), target.state(at)), at, atol=1e-10)


def test_rows_of_every_chain_are_its_own(problem):
    target, *_ = problem
    position = positions(target)
    rows = torch.tensor([[0, 1], [5, 3], [11, 2]])
    together = target.row_gradient(position, rows)
    single = [sum(target.row_gradient(position[i : i + 1], row[None, None]) for row in rows[i]) for i in range(3)]
    np.testing.assert_allclose(together, torch.cat(single), atol=1e-10)


def test_values_are_those_of_the_network(problem):
    target, theta_hat, x, _ = problem
    position, rows = positions(target), torch.tensor([3, 0, 7])
    scales, z = target.prior.scales(target.state(position)), target.layers(position)
    theta = [t + scales.s[:, i, None, None] * (q @ target.net.basis.T if i == 0 else q)
             for i, (t, q) in enumerate(zip(theta_hat, z, strict=True))]  # fmt: skip
    np.testing.assert_allclose(target.values(position, rows), plain(theta, x[rows].expand(3, -1, -1)), atol=1e-10)


def test_units_are_widths_under_the_diagonal_of_gauss_newton(problem):
    """Of one weight of the first layer, by finite differences of f at all rows; one scale, likewise."""
    target, *_ = problem
    position, rows = positions(target, 1), torch.arange(12)
    units = target.in_own_units(position, rows).units
    sigma = float(target.prior.scales(target.state(position)).sigma)
    for entry in (0, 7, target.spans[1][0], target.spans[2][0] + 1, len(units) - 1):
        shift = torch.zeros_like(position)
        shift[0, entry] = 1e-6
        slope = (target.values(position + shift, rows) - target.values(position - shift, rows)) / 2e-6
        curvature = float((slope**2).sum()) / sigma**2 + 1.0 / (1.0 if entry < target.spans[-1][1] else
                                                             float(target.prior.units[-1])) ** 2  # fmt: skip
        assert float(units[entry]) == pytest.approx(curvature**-0.5, rel=1e-5)


def test_search_is_adam_with_a_cosine(problem):
    """Against torch's own."""
    target, *parts = problem
    start, rows, steps = positions(target, 2), torch.arange(12).expand(2, 12), 60
    found = climb(target, start, steps=steps, learning_rate=0.05, batch_size=None, seed=0)
    other = start.clone().requires_grad_()
    adam = torch.optim.Adam([other], lr=0.05)
    for k in range(steps):
        adam.param_groups[0]["lr"] = 0.05 * 0.5 * (1 + math.cos(math.pi * k / steps))
        other.grad = -batch_gradient(target, rows)(other.detach()).total
        adam.step()
    np.testing.assert_allclose(found, other.detach(), atol=1e-9)
    before, after = (log_posterior(target, *parts, at) for at in (start, found))
    assert bool((after > before + 5).all())
