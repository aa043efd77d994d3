"""The network is a pure function of its parameters, and its gradient norms agree with autograd."""

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import NetworkConfig, forward, init_params, layer_gradient_norms

SMALL = NetworkConfig(5, (4, 3))


def params_of(config, seed=0):
    generator = torch.Generator().manual_seed(seed)
    params = init_params(config, generator=generator, dtype=torch.float64)
    return {
        k: v + 0.3 * torch.randn(v.shape, generator=generator, dtype=torch.float64)
        for k, v in params.items()
    }


@pytest.fixture
def x():
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def by_hand(params, row, widths):
    """Return the value by sums and products of scalars."""
    h = [float(v) for v in row]
    for layer in range(1, len(widths) + 1):
        weight = params[f"weight.{layer}"]
        bias = params[f"bias.{layer}"]
        pre = [
            sum(float(weight[i, j]) * h[j] for j in range(len(h))) + float(bias[i])
            for i in range(widths[layer - 1])
        ]
        h = [max(v, 0.0) for v in pre] if layer < len(widths) else pre
    return h[0]


def test_forward_agrees_with_sums_by_hand(x):
    params = params_of(SMALL)
    expected = [by_hand(params, row, (4, 3, 1)) for row in x]
    np.testing.assert_allclose(forward(params, x).numpy(), expected, rtol=1e-12)


def test_forward_of_a_batch_of_parameters_gives_the_values_of_each(x):
    draws = [[params_of(SMALL, seed=10 * i + j) for j in range(3)] for i in range(2)]
    batch = {
        k: torch.stack([torch.stack([p[k] for p in row]) for row in draws]) for k in draws[0][0]
    }
    values = forward(batch, x)
    assert values.shape == (2, 3, 6)
    torch.testing.assert_close(values[1, 2], forward(draws[1][2], x))


def test_forward_sorts_layers_by_number_and_not_by_text():
    deep = NetworkConfig(2, (2,) * 11)
    params = params_of(deep)
    x = torch.ones(1, 2, dtype=torch.float64)
    assert float(forward(params, x)) == pytest.approx(by_hand(params, x[0], (*deep.hidden, 1)))


def test_layer_gradient_norms_agree_with_autograd(x):
    params = {k: v.requires_grad_(True) for k, v in params_of(SMALL).items()}
    expected = np.zeros((6, 3))
    for i in range(6):
        gradients = torch.autograd.grad(
            forward(params, x[i : i + 1]).squeeze(), list(params.values())
        )
        for name, gradient in zip(params, gradients, strict=True):
            expected[i, int(name[-1]) - 1] += float((gradient**2).sum())
    norms = layer_gradient_norms({k: v.detach() for k, v in params.items()}, x)
    np.testing.assert_allclose(norms.numpy(), expected, rtol=1e-12)


def test_layer_gradient_norms_of_dead_hidden_units_are_those_of_the_output_bias():
    params = params_of(SMALL)
    params["bias.2"] = torch.full((3,), -1e6, dtype=torch.float64)
    alpha = layer_gradient_norms(params, torch.ones(2, 5))
    assert alpha.tolist() == [[0.0, 0.0, 1.0]] * 2


def test_init_params_are_glorot_uniform_with_zero_biases():
    params = init_params(NetworkConfig(200, (100, 7)), generator=torch.Generator().manual_seed(1))
    limit = (6 / 300) ** 0.5
    weight = params["weight.1"]
    assert float(weight.abs().max()) <= limit
    # Variance of 20,000 uniform numbers: the relative standard error is 0.6 %, so that 4 % raises a
    # false alarm for 1e-10 of seeds.
    assert float(weight.var()) == pytest.approx(limit**2 / 3, rel=0.04)
    assert all(not bool(value.any()) for name, value in params.items() if name.startswith("bias"))
