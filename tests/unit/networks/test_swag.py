"""Snapshots of SGD have the moments of the walk, and their prior agrees with the dense formula."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import InputError
from bandgap.networks.perceptron import NetworkConfig, forward, init_params
from bandgap.networks.swag import SnapshotConfig, Snapshots, collect_snapshots, snapshot_prior

# 27 parameters: 20 + 5 + 2.
SHAPE = NetworkConfig(4, (4, 1))
CONFIG = SnapshotConfig(count=6, rank=4, burn_in=2, learning_rate=1e-2, batch_size=10)


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(0)
    params = init_params(NetworkConfig(3, (5,)), generator=generator)
    x = torch.randn(40, 3, generator=generator)
    return params, x, forward(params, x) + 0.3 * torch.randn(40, generator=generator)


def collect(problem, *, config=CONFIG, seed=1, **more):
    params, x, y = problem
    return collect_snapshots(
        params, x, y, config=config, generator=torch.Generator().manual_seed(seed), **more
    )


def random_snapshots(rank=5):
    """Return random snapshots of 27 parameters."""
    generator = torch.Generator().manual_seed(4)
    mean = init_params(SHAPE, generator=generator, dtype=torch.float64)
    diagonal = {
        n: torch.rand(v.shape, generator=generator, dtype=torch.float64) for n, v in mean.items()
    }
    # A weight that never moved.
    diagonal["weight.1"][0, 0] = 0.0
    deviations = {
        n: torch.randn(rank, *v.shape, generator=generator, dtype=torch.float64)
        for n, v in mean.items()
    }
    deviations["weight.1"][:, 0, 0] = 0.0
    return Snapshots(mean, diagonal, deviations)


def flat(params, names):
    return torch.cat([params[name].flatten() for name in names])


def quadratic(prior, params):
    """Return (phi - mu)' S^-1 (phi - mu) and its gradient by phi, with S^-1 = A^-1 - W W'."""
    v = flat(params, prior.mean) - flat(prior.mean, prior.mean)
    solved = prior.inverse_diagonal * v - prior.factor @ (prior.factor.T @ v)
    gradients = torch.split(2.0 * solved, [value.numel() for value in prior.mean.values()])
    return v @ solved, {
        n: g.view_as(prior.mean[n]) for n, g in zip(prior.mean, gradients, strict=True)
    }


def dense_covariance(snapshots, *, gamma, eps, names):
    """Return S by its formula, (P, P)."""
    d = flat(snapshots.diagonal, names)
    deviations = torch.cat([snapshots.deviations[name].flatten(1) for name in names], 1)
    low_rank = deviations.T @ deviations / (2 * (snapshots.rank - 1))
    return gamma * (torch.diag(d) / 2 + low_rank) + eps * torch.eye(d.numel(), dtype=torch.float64)


@pytest.mark.parametrize("gamma", [0.0, 1e-2, 1.0, 1e6])
@pytest.mark.parametrize("eps", [0.1, 1e-4])
@pytest.mark.parametrize("layers", [None, (1, 2)])
def test_quadratic_form_and_its_gradient_are_the_dense_formula(gamma, eps, layers):
    snapshots = random_snapshots()
    names = [n for n in SHAPE.shapes if layers is None or int(n[-1]) in layers]
    covariance = dense_covariance(snapshots, gamma=gamma, eps=eps, names=names)
    generator = torch.Generator().manual_seed(8)
    phi = {
        n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in SHAPE.shapes.items()
    }
    v = flat(phi, names) - flat(snapshots.mean, names)
    prior = snapshot_prior(snapshots, gamma=gamma, eps=eps, layers=layers, dtype=torch.float64)
    value, gradient = quadratic(prior, phi)
    solved = torch.linalg.solve(covariance, v)
    assert float(value) == pytest.approx(float(v @ solved), rel=1e-8)
    assert {n: tuple(g.shape) for n, g in gradient.items()} == {n: SHAPE.shapes[n] for n in names}
    np.testing.assert_allclose(
        flat(gradient, names).numpy(), 2 * solved.numpy(), rtol=1e-6, atol=1e-9
    )
    assert prior.log_determinant == pytest.approx(float(torch.logdet(covariance)), rel=1e-10)


def test_snapshots_have_the_moments_of_the_walk_by_hand(problem):
    """The same walk with the weights of every epoch: two burn-in epochs, six snapshots, rank 4."""
    params, x, y = problem
    generator = torch.Generator().manual_seed(1)
    leaf = {n: v.clone().requires_grad_(True) for n, v in params.items()}
    velocity = {n: torch.zeros_like(v) for n, v in params.items()}
    path = []
    for _ in range(8):
        for batch in torch.split(torch.randperm(40, generator=generator), 10):
            loss = ((forward(leaf, x[batch]) - y[batch]) ** 2).mean()
            loss = loss + sum(1e-4 * v.abs().sum() + 1e-4 * (v**2).sum() for v in leaf.values())
            gradients = torch.autograd.grad(loss, list(leaf.values()))
            for name, gradient in zip(leaf, gradients, strict=True):
                velocity[name] = 0.9 * velocity[name] + gradient
                leaf[name] = (leaf[name] - 1e-2 * velocity[name]).detach().requires_grad_(True)
        path.append({n: v.detach().double().clone() for n, v in leaf.items()})
    snapshots = collect(problem)
    assert snapshots.rank == 4
    for name in params:
        walk = torch.stack([p[name] for p in path[2:]])
        torch.testing.assert_close(
            snapshots.mean[name].double(), walk.mean(0), rtol=1e-5, atol=1e-6
        )
        torch.testing.assert_close(
            snapshots.diagonal[name].double(), walk.var(0, correction=0), rtol=1e-3, atol=1e-8
        )
        torch.testing.assert_close(
            snapshots.deviations[name].double(), walk[-4:] - walk.mean(0), rtol=1e-3, atol=1e-6
        )


def test_weights_of_a_feature_that_is_always_zero_stay_at_zero(problem):
    params, x, y = problem
    start = {n: v.clone() for n, v in params.items()}
    start["weight.1"][:, 2] = 0.0
    without_feature = x.clone()
    without_feature[:, 2] = 0.0
    snapshots = collect((start, without_feature, y))
    assert not bool(snapshots.mean["weight.1"][:, 2].any())
    assert not bool(snapshots.diagonal["weight.1"][:, 2].any())


def test_diverging_walk_is_refused_with_what_to_do(problem):
    with pytest.raises(
        InputError, match=r"SGD diverged in epoch \d+ at a learning rate of 100.0. Take a smaller"
    ):
        collect(problem, config=dataclasses.replace(CONFIG, learning_rate=100.0))
