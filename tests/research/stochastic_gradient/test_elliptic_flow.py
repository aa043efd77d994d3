"""The flow solver against exact solutions, covariances of fields, and surrogate networks."""

import numpy as np
import pytest
import torch

from benchmarks.studies.elliptic_flow import (
    SurrogateTarget,
    karhunen_loeve,
    solve_flow,
    surrogate,
    wells,
)


@pytest.mark.parametrize("nx, ny", [(7, 4), (10, 10)])
def test_flow_with_a_source_everywhere_is_the_exact_one(nx, ny):
    """kappa = 1, f = 1, pressure 1 to 0.

    u_x = x + 1/2 at all edges.
    """
    flow = solve_flow(np.ones((nx, ny)), np.ones((nx, ny)), pressures=(1.0, 0.0))
    edges = np.arange(nx + 1) / nx
    np.testing.assert_allclose(flow.x_velocity, np.tile((edges + 0.5)[:, None], ny), atol=1e-10)
    np.testing.assert_allclose(flow.y_velocity, 0.0, atol=1e-10)


def test_flow_in_layers_of_two_permeabilities_is_that_of_conductors_in_a_row():
    """No source: the flux is 1 / sum(h / kappa)."""
    kappa = np.repeat(np.array([1.0, 1.0, 0.1, 5.0]), 3).reshape(4, 3)
    flow = solve_flow(kappa, np.zeros((4, 3)), pressures=(1.0, 0.0))
    np.testing.assert_allclose(flow.x_velocity, 4 / (1 + 1 + 10 + 0.2), rtol=1e-10)


def test_closed_flow_conserves_every_cell():
    f = wells(20, 20, upper_right=9.0, lower_left=12.0)
    fields = karhunen_loeve(20, 20, terms=8)
    mu = np.random.default_rng(0).normal(size=8)
    flow = solve_flow(np.exp(np.tensordot(mu, fields, 1)), f)
    h = 1 / 20
    out = (
        flow.x_velocity[1:]
        - flow.x_velocity[:-1]
        + flow.y_velocity[:, 1:]
        - flow.y_velocity[:, :-1]
    ) * h
    np.testing.assert_allclose(out, f * h * h, atol=1e-10)
    assert abs(f.sum()) < 1e-12
    assert flow.edges.shape == (2 * 20 * 21,)


def test_all_terms_of_the_field_have_the_covariance():
    fields = karhunen_loeve(8, 6, terms=48).reshape(48, -1)
    x, y = (np.arange(8) + 0.5) / 8, (np.arange(6) + 0.5) / 6
    dx = (x[:, None] - x)[:, None, :, None]
    dy = (y[:, None] - y)[None, :, None, :]
    expected = (2 * np.exp(-(dx**2) / 0.04 - dy**2 / 0.09)).reshape(48, 48)
    np.testing.assert_allclose(fields.T @ fields, expected, atol=1e-10)


@pytest.mark.parametrize(
    "network, count",
    [(surrogate(), 1_737_468), (surrogate((64, 32), width=800), 8_674_672)],
    ids=["N1", "N2"],
)
def test_networks_have_the_number_of_parameters_of_their_layers(network, count):
    """The paper's numbers, 2,566,828 and 8,252,320, are of channels that it does not state."""
    assert sum(p.numel() for p in network.parameters()) == count


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(1)
    flows = []
    inputs = []
    for _ in range(60):
        a, b = rng.normal(10, 5**0.5, 2)
        f = wells(20, 20, upper_right=a, lower_left=b)
        flows.append(solve_flow(np.ones((20, 20)), f).edges)
        inputs.append(f / 10)
    torch.manual_seed(0)
    fields, velocities = (torch.from_numpy(np.array(values)).float() for values in (inputs, flows))
    return SurrogateTarget(surrogate(grid=20), fields[:, None], velocities)


def test_gradient_of_the_surrogate_is_that_of_its_errors(small):
    start = torch.stack([small.start, small.start * 0.9]).requires_grad_()
    rows = torch.tensor([[0, 3], [5, 1]])
    loss = sum(small.relative_errors(start[i], rows[i]).sum() for i in range(2))
    (expected,) = torch.autograd.grad(-loss / 60, start)
    np.testing.assert_allclose(small.row_gradient(start.detach(), rows), expected, atol=1e-6)
