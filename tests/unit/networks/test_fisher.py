"""The Fisher diagonal agrees with autograd, and needs a noise variance."""

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import NetworkConfig, fisher_diagonal, forward, init_params

SMALL = NetworkConfig(5, (4, 3))


@pytest.fixture
def params():
    generator = torch.Generator().manual_seed(2)
    start = init_params(SMALL, generator=generator, dtype=torch.float64)
    return {
        k: v + 0.3 * torch.randn(v.shape, generator=generator, dtype=torch.float64)
        for k, v in start.items()
    }


@pytest.fixture
def x():
    return torch.randn(11, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def by_autograd(params, x, *, noise_variance):
    leaves = {k: v.clone().requires_grad_(True) for k, v in params.items()}
    total = {k: torch.zeros_like(v) for k, v in params.items()}
    for i in range(x.shape[0]):
        gradients = torch.autograd.grad(
            forward(leaves, x[i : i + 1]).squeeze(), list(leaves.values())
        )
        for name, gradient in zip(leaves, gradients, strict=True):
            total[name] += gradient**2 / noise_variance
    return total


@pytest.mark.parametrize("chunk_rows", [1, 4, 11, 100])
def test_fisher_agrees_with_autograd_row_by_row(params, x, chunk_rows):
    expected = by_autograd(params, x, noise_variance=0.3)
    fisher = fisher_diagonal(params, x, noise_variance=0.3, chunk_rows=chunk_rows)
    assert list(fisher) == list(params)
    for name in params:
        np.testing.assert_allclose(
            fisher[name].numpy(), expected[name].numpy(), rtol=1e-12, atol=1e-14
        )


def test_fisher_of_the_output_bias_is_the_number_of_rows_over_the_noise_variance(params, x):
    assert fisher_diagonal(params, x, noise_variance=0.25)["bias.3"].tolist() == [44.0]
