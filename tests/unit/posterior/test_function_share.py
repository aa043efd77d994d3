"""Each layer's share of the function's freedom, against a network whose layers are really moved one
at a time.
"""

import numpy as np
import torch

from bandgap.networks.perceptron import (
    NetworkConfig,
    forward,
    init_params,
    layer_gradient_norms,
    layer_of,
)
from bandgap.posterior.network import function_share


def test_function_share_is_the_share_of_the_variance_that_each_layer_gives_the_network() -> None:
    torch.manual_seed(0)
    params = init_params(
        NetworkConfig(6, (8, 5)), generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    x = torch.randn(30, 6, dtype=torch.float64)
    c = np.array([0.1, 0.3, 0.6])
    tau = 1e-8
    draws = 3000
    base = forward(params, x)
    generator = torch.Generator().manual_seed(2)
    variance = []
    for layer in (1, 2, 3):
        sd = (tau * c[layer - 1]) ** 0.5
        total = torch.zeros_like(base)
        for _ in range(draws):
            moved = {
                name: v + sd * torch.randn(v.shape, generator=generator, dtype=v.dtype)
                if layer_of(name) == layer
                else v
                for name, v in params.items()
            }
            total += (forward(moved, x) - base) ** 2
        variance.append(float(total.mean()) / draws)
    expected = np.array(variance) / sum(variance)
    share = function_share(c, layer_gradient_norms(params, x).mean(0).numpy())
    # A variance of 3,000 draws is known to 2.6 %.
    np.testing.assert_allclose(share, expected, atol=0.02)


def test_function_share_weighs_c_by_sensitivity_and_sums_to_one() -> None:
    c = np.array([[[0.2, 0.8], [0.5, 0.5]]])
    kappa = function_share(c, np.array([12.0, 1.0]))
    np.testing.assert_allclose(kappa, [[[2.4 / 3.2, 0.8 / 3.2], [12 / 13, 1 / 13]]])
