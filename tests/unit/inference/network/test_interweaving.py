"""The interwoven move keeps the posterior and finds the informed directions."""

import dataclasses

import pytest
import torch
from scipy import stats

from bandgap.inference.network.interweaving import _Line, informed_directions, step_interwoven
from bandgap.inference.network.joint_density import log_density
from bandgap.inference.network.scale_moves import POINTS
from bandgap.inference.network.whitened_network import hidden_features, integrate_output, whiten
from tests.unit.inference.network.problems import (
    CPU,
    draw_z,
    free_priors_of,
    prior_of,
    raw,
    state_of,
    with_labels_from_the_model,
)

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed


@pytest.fixture(scope="module")
def problem():
    theta_hat, x, y = raw(6, 4)
    return whiten(theta_hat, x, y, device=CPU, dtype=torch.float64), prior_of(theta_hat, x)


def orthonormal(net, columns):
    generator = torch.Generator().manual_seed(9)
    return [
        torch.linalg.qr(torch.randn(a * b, columns, generator=generator, dtype=torch.float64)).Q
        for a, b in net.shapes
    ]


def move_together(net, z, state, **settings):
    """Move all chains as a batch; each has separate labels."""
    return step_interwoven(net, z, state, **settings)


def move_one_by_one(net, z, state, **settings):
    """Move every chain as the only one of a network, as on a CPU."""
    ends = [
        step_interwoven(
            dataclasses.replace(net, y=y), [q[i : i + 1] for q in z], state[i : i + 1], **settings
        )
        for i, y in enumerate(net.y)
    ]
    return [torch.cat(layers) for layers in zip(*(z for z, _ in ends), strict=True)], torch.cat(
        [h for _, h in ends]
    )


@pytest.mark.statistical
@pytest.mark.parametrize("move, chains", [(move_together, 3000), (move_one_by_one, 600)])
@pytest.mark.parametrize(
    "prior_name, columns", [("point estimate", 1), ("point estimate", 8), ("inverse gamma", 3)]
)
def test_moves_keep_the_joint_law_of_weights_scales_and_labels(prior_name, columns, move, chains):
    """With labels from the model, scales and z still follow the prior after moves."""
    theta_hat, x, y = raw(6, 4)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = free_priors_of(theta_hat, x)[prior_name]
    generator = torch.Generator().manual_seed(columns)
    start = prior.draw(chains, generator=generator)
    z = draw_z(net, chains, seed=columns)
    labelled = with_labels_from_the_model(net, z, prior.scales(start), generator=generator)
    subspaces = orthonormal(net, columns)
    state = start
    start_z = z
    for _ in range(4):
        z, state = move(labelled, z, state, prior=prior, subspaces=subspaces, generator=generator)
    moved = torch.log(prior.scales(state).s[:, 0] / prior.scales(start).s[:, 0]).abs()
    assert float((moved > 1e-9).double().mean()) > 0.95 and float(moved.median()) > 0.1
    after = prior.judged(state.numpy())
    expected = prior.judged(prior.draw(40_000, generator=generator).numpy())
    for name, values in after.items():
        assert stats.ks_2samp(values, expected[name]).pvalue > FALSE_ALARM / 16, name
    for q, before, basis in zip(z, start_z, subspaces, strict=True):
        inside = (q.flatten(1) @ basis).square().sum(1).numpy()
        assert stats.kstest(inside, stats.chi2(columns).cdf).pvalue > FALSE_ALARM / 16
        outside = q.flatten(1) - q.flatten(1) @ basis @ basis.T
        torch.testing.assert_close(outside, before.flatten(1) - before.flatten(1) @ basis @ basis.T)


@pytest.mark.parametrize("layer", [0, 1])
def test_density_along_the_line_is_that_of_its_ends_with_prior_and_jacobian(problem, layer):
    """The change of variables shrinks 3 directions of z by e^-d; the prior of z is N(0, I)."""
    net, prior = problem
    state = state_of([-1.0, -0.4, 0.3, -0.8, 0.1], [0.5, 0.2, -2.0, 1.0, 0.4])
    z = draw_z(net, 2)
    line = _Line(net, prior, z, state, layer, orthonormal(net, 3)[layer])
    d = torch.linspace(-0.7, 0.9, 2 * POINTS, dtype=torch.float64).reshape(2, POINTS)
    values = line(d)
    for point in range(POINTS):
        moved_z, moved = line.end(d[:, point])
        change = sum(
            (old.square() - new.square()).flatten(1).sum(1)
            for old, new in zip(z, moved_z, strict=True)
        )
        expected = log_density(net, moved_z, moved, prior) - 3 * d[:, point] + 0.5 * change
        torch.testing.assert_close(values[:, point], expected)


def test_weights_in_the_subspace_and_other_scales_stay(problem):
    net, prior = problem
    state = state_of([-1.0, -0.4, 0.3, -0.8, 0.1], [0.5, 0.2, -2.0, 1.0, 0.4])
    z = draw_z(net, 2)
    subspaces = orthonormal(net, 3)
    generator = torch.Generator().manual_seed(0)
    moved_z, moved = step_interwoven(
        net, z, state, prior=prior, subspaces=subspaces, generator=generator
    )
    assert not torch.equal(moved, state)
    torch.testing.assert_close(moved[:, 0], state[:, 0])
    before = prior.scales(state)
    after = prior.scales(moved)
    torch.testing.assert_close((after.rho, after.s[:, -1]), (before.rho, before.s[:, -1]))
    for layer, basis in enumerate(subspaces):
        expected = before.s[:, layer, None] * (z[layer].flatten(1) @ basis)
        torch.testing.assert_close(
            after.s[:, layer, None] * (moved_z[layer].flatten(1) @ basis), expected
        )


def test_without_subspaces_nothing_moves(problem):
    net, prior = problem
    state = state_of([-1.0, -0.4, 0.3, -0.8, 0.1])
    z = draw_z(net, 1)
    assert step_interwoven(
        net, z, state, prior=prior, subspaces=[], generator=torch.Generator()
    ) == (z, state)


def test_directions_are_the_leading_ones_of_the_gradients(problem):
    """The reference are singular vectors of the gradients by automatic differentiation."""
    net, prior = problem
    state = state_of([-1.0, -0.4, 0.3, -0.8, 0.1])
    z = draw_z(net, 1)
    scales = prior.scales(state)
    mean = integrate_output(net, hidden_features(net, z, scales), scales).mean
    for layer, basis in enumerate(informed_directions(net, prior, [(z, state)])):

        def f(part, layer=layer):
            at = [part if i == layer else q for i, q in enumerate(z)]
            return (hidden_features(net, at, scales).features @ mean.unsqueeze(-1)).reshape(-1)

        gradients = torch.autograd.functional.jacobian(f, z[layer]).flatten(1)
        _, values, vt = torch.linalg.svd(gradients, full_matrices=False)
        expected = vt[values > 1e-3 * values[0]]
        torch.testing.assert_close(
            basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-9, rtol=0
        )
        torch.testing.assert_close(expected @ basis @ basis.T, expected, atol=1e-6, rtol=0)
        assert basis.shape[1] <= net.n_rows
