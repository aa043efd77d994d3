"""Masked autoregressive flows: masks, log-determinants, inverses and integrals."""

import numpy as np
import torch

from bandgap.networks.perceptron import Params
from bandgap.research.flows.masked_flow import (
    BatchMoments,
    FlowConfig,
    init_flows,
    inverse,
    refreshed_moments,
    shift_and_log_scale,
    training_pass,
    transform,
)


def rough_flows(
    n_features: int, *, n_flows: int = 2, n_blocks: int = 3, seed: int = 0
) -> tuple[FlowConfig, Params, BatchMoments]:
    """Flows far from the identity, with moments of normal rows."""
    config = FlowConfig(n_features, n_blocks=n_blocks, width=12)
    generator = torch.Generator().manual_seed(seed)
    params = init_flows(config, n_flows=n_flows, generator=generator)
    for name, value in params.items():
        scale = 20.0 if name.endswith(".3") else 1.0
        noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        params[name] = scale * value + 0.1 * noise
    rows = torch.randn(50, n_features, generator=generator, dtype=torch.float64)
    weights = torch.full((n_flows, 50), 1 / 50, dtype=torch.float64)
    return config, params, refreshed_moments(params, config, rows, weights)


def test_log_determinant_is_that_of_the_jacobian_of_automatic_differentiation() -> None:
    config, params, moments = rough_flows(4)
    x = torch.randn(3, 4, dtype=torch.float64)
    _, log_det = transform(params, config, moments, x)
    for flow in range(2):
        for row in range(3):
            jacobian = torch.autograd.functional.jacobian(
                lambda point, flow=flow: transform(params, config, moments, point[None])[0][
                    flow, 0
                ],
                x[row],
            )
            expected = torch.linalg.slogdet(jacobian).logabsdet
            assert abs(float(log_det[flow, row] - expected)) < 1e-10


def test_inverse_gives_the_rows_back() -> None:
    config, params, moments = rough_flows(6)
    x = torch.randn(20, 6, dtype=torch.float64)
    u, _ = transform(params, config, moments, x)
    assert float((inverse(params, config, moments, u) - x).abs().max()) < 1e-8


def test_training_pass_uses_the_weighted_moments_of_its_rows() -> None:
    """The last normalisation gives rows of weighted mean `shift` and variance exp(2 log_scale)."""
    config, params, _ = rough_flows(3)
    x = torch.randn(30, 3, dtype=torch.float64)
    weights = torch.rand(2, 30, dtype=torch.float64)
    weights = weights / weights.sum(1, keepdim=True)
    u, log_det = training_pass(params, config, x, weights)
    mean = (weights[:, :, None] * u).sum(1)
    variance = (weights[:, :, None] * (u - mean[:, None]) ** 2).sum(1)
    np.testing.assert_allclose(mean.numpy(), params["shift.2"].numpy(), atol=1e-12)
    np.testing.assert_allclose(
        variance.numpy(), torch.exp(2 * params["log_scale.2"]).numpy(), rtol=1e-3
    )
    moments = refreshed_moments(params, config, x, weights)
    evaluated, log_det_evaluated = transform(params, config, moments, x)
    np.testing.assert_allclose(evaluated.numpy(), u.numpy(), atol=1e-12)
    np.testing.assert_allclose(log_det_evaluated.numpy(), log_det.numpy(), atol=1e-12)


def test_flow_starts_near_the_identity() -> None:
    config = FlowConfig(4)
    params = init_flows(config, n_flows=1, generator=torch.Generator().manual_seed(0))
    shift, log_scale = shift_and_log_scale(params, config, 0, torch.randn(1, 9, 4).double())
    assert float(shift.abs().max()) < 0.05
    assert float(log_scale.abs().max()) < 0.05
