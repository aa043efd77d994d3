"""Clipping by sample, the stationary variance of SGHMC, and the cosine schedule."""

import numpy as np
import pytest
import torch

from bandgap.inference.batch.kernels import make_stack
from bandgap.inference.batch.updates import Hamiltonian, Noise, annealed, clip


def stack_of(samples, r=2, width=3):
    return make_stack(
        torch.zeros(1, 4, r, dtype=torch.float64),
        torch.zeros(1, 4, width, dtype=torch.float64),
        fold=torch.zeros(samples, dtype=torch.long),
        omega=torch.ones(samples, 4, dtype=torch.float64),
        labels=torch.ones(samples, 4, dtype=torch.float64),
        upper=[torch.zeros(samples, width + 1, 1, dtype=torch.float64)],
        kernel="bmm",
    )


def test_clipping_scales_a_sample_whose_norm_over_all_layers_is_too_large():
    stack = stack_of(2)
    stack.gradients[0][0], stack.gradients[1][0] = 3.0, 4.0  # norm sqrt(6 * 9 + 4 * 16) = sqrt(118)
    stack.gradients[0][1], stack.gradients[1][1] = 0.1, 0.1
    clip(stack, 2.0)
    norms = torch.sqrt(sum((g**2).sum((1, 2)) for g in stack.gradients))
    torch.testing.assert_close(norms[0], torch.tensor(2.0, dtype=torch.float64))
    assert (stack.gradients[0][1] == 0.1).all() and (stack.gradients[1][1] == 0.1).all()
    assert float(stack.gradients[0][0, 0, 0] / stack.gradients[1][0, 0, 0]) == pytest.approx(0.75)


def stationary(rate, *, momentum, temperature, n, precision):
    """Stationary covariance of (v, theta).

    v <- momentum v - rate precision theta + e, theta <- theta + v.
    """
    step = np.array([[momentum, -rate * precision], [momentum, 1 - rate * precision]])
    noise = 2 * (1 - momentum) * temperature * rate / n * np.ones((2, 2))
    return np.linalg.solve(np.eye(4) - np.kron(step, step), noise.reshape(4)).reshape(2, 2)


def test_sghmc_has_the_variance_of_its_recursion_on_a_quadratic_energy():
    """The variance of 9,820 weights is within 4 standard errors, and near T / n for small steps."""
    samples = 20
    n = 50
    temperature = 3.0
    rate = 0.01
    stack = stack_of(samples, r=48, width=10)
    generators = [np.random.default_rng([1, s]) for s in range(samples)]
    noise = Noise([temperature / n] * samples, generators, [48] * samples)
    mover = Hamiltonian(stack, momentum=0.9, noise=noise)
    for _ in range(250):
        for gradient, weight in zip(stack.gradients, stack.weights, strict=True):
            gradient.copy_(weight)
        mover.step(rate, noisy=True)
    values = torch.cat([w.flatten() for w in stack.weights]).numpy()
    expected = stationary(rate, momentum=0.9, temperature=temperature, n=n, precision=1.0)[1, 1]
    assert expected == pytest.approx(temperature / n, rel=0.05)
    assert abs(values.var() / expected - 1) < 4 * np.sqrt(2 / values.size)


def test_rows_beyond_a_samples_rank_get_no_noise():
    stack = stack_of(2, r=4)
    noise = Noise([0.2, 0.2], [np.random.default_rng(0), np.random.default_rng(1)], [4, 2])
    Hamiltonian(stack, momentum=0.9, noise=noise).step(0.1, noisy=True)
    assert (stack.weights[0][1, 2:] == 0).all() and (stack.weights[0][1, :2] != 0).all()
    assert (stack.weights[0][0] != 0).all()


def test_schedule_falls_from_the_learning_rate_to_zero():
    rates = [annealed(0.2, share=share) for share in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(rates, [0.2, 0.1, 0.0], atol=1e-15)
