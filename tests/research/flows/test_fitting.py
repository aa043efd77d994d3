"""Fits of flows: densities that integrate to one, equal seeds, and refused rows."""

import math

import numpy as np
import torch

from bandgap.inference.base_measure import BaseMeasure
from bandgap.research.flows.fitting import FittedFlows, FlowTraining, fit_flows
from bandgap.research.flows.masked_flow import FlowConfig
from tests.research.flows.test_flow_formulas import roles


def curved_rows(n: int, *, seed: int = 0) -> torch.Tensor:
    """A parabola with scatter: no normal distribution."""
    random = np.random.default_rng(seed)
    x = random.normal(size=n)
    return torch.from_numpy(np.column_stack([x, 0.5 * x**2 + 0.2 * random.normal(size=n)]))


def fitted(rows: torch.Tensor, **options: object) -> FittedFlows:
    is_fitted, is_stopping = roles(len(rows), 2, n_stopping=len(rows) // 5)
    config = FlowConfig(rows.shape[1], width=16)
    return fit_flows(
        rows,
        is_fitted=is_fitted,
        is_stopping=is_stopping,
        config=config,
        **options,  # type: ignore[arg-type]
    )


def test_trained_density_of_two_coordinates_integrates_to_one() -> None:
    flows = fitted(curved_rows(200), training=FlowTraining(max_epochs=40))
    axis = torch.linspace(-8, 12, 301, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    step = float(axis[1] - axis[0])
    integrals = flows.log_density(grid).exp().sum(1) * step**2
    np.testing.assert_allclose(integrals.numpy(), 1.0, atol=1e-3)


def test_flow_beats_the_normal_density_on_new_rows_of_a_curve() -> None:
    rows = curved_rows(400)
    new = curved_rows(1_000, seed=1)
    flows = fitted(rows, training=FlowTraining(max_epochs=120))
    normal = torch.distributions.MultivariateNormal(rows.mean(0), torch.cov(rows.T))
    assert float(flows.log_density(new).mean()) > float(normal.log_prob(new).mean()) + 0.3


def test_flow_of_one_coordinate_is_the_normal_density_of_its_rows() -> None:
    rows = 2.0 + 3.0 * torch.randn(80, 1, generator=torch.Generator().manual_seed(0)).double()
    flows = fitted(rows, training=FlowTraining(max_epochs=3, bootstrap=False))
    points = torch.linspace(-9, 9, 50, dtype=torch.float64)[:, None]
    log_densities = flows.log_density(points)
    for flow in range(2):
        # a normal density is a parabola; its vertex is the mean
        quadratic, linear, _ = np.polyfit(points[:, 0].numpy(), log_densities[flow].numpy(), 2)
        assert abs(-linear / (2 * quadratic) - float(rows[16:].mean())) < 1e-6


def test_weights_without_bootstrap_give_maximum_likelihood() -> None:
    """Every row fitted to has the same weight, so that both flows differ by their start alone."""
    rows = curved_rows(60)
    one = fitted(rows, training=FlowTraining(max_epochs=40, bootstrap=False))
    assert math.isfinite(float(one.validation.min()))
    bootstrap = fitted(rows, training=FlowTraining(max_epochs=40))
    assert not torch.equal(one.log_density(rows), bootstrap.log_density(rows))


def test_historical_rows_draw_the_density_to_them() -> None:
    rows = curved_rows(60)
    history = rows + torch.tensor([4.0, 0.0])
    training = FlowTraining(max_epochs=60, redraw=True)
    alone = fitted(rows, training=training)
    with_history = fitted(rows, training=training, base=BaseMeasure(60.0, rows=history))
    gain = with_history.log_density(history).mean() - alone.log_density(history).mean()
    assert float(gain) > 1.0
