"""The compiled force and density equal those in torch, and give None where they cannot."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.inference.network.compiled_density import (
    CompiledDensity,
    has_compiled_code,
    network_of_chain,
)
from bandgap.inference.network.compiled_force import CompiledForce
from bandgap.inference.network.joint_density import (
    LARGEST_SIGNAL,
    ROUGH_SIGNAL,
    log_density,
    log_force,
    signal,
)
from bandgap.inference.network.joint_hmc import Phase, path
from bandgap.inference.network.partial_centring import find_frames
from bandgap.inference.network.whitened_network import hidden_features, whiten
from bandgap.research.shared.scaled_network import whiten_scaled
from tests.unit.inference.network.problems import CPU, draw_z, prior_of, raw, sds_of, state_of

STATE = state_of([-2.0, -0.7, -0.5, 0.2, -0.4], [-4.0, -0.2, 0.1, -1.2, 0.3])
WIDTHS = (0.4, 0.3)


def problem(hidden=(4, 3)):
    theta_hat, x, y = raw(7, 5, hidden=hidden)
    return whiten(theta_hat, x, y, device=CPU, dtype=torch.float64), prior_of(theta_hat, x)


def tensors(force):
    return [torch.from_numpy(g) for g in force.by_zeta.layers]


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("leading", [6, 3])
def test_compiled_force_is_that_of_torch(framed, leading):
    net, prior = problem()
    z = draw_z(net, 2)
    frames = find_frames(net, prior, [(z, STATE)], leading=leading) if framed else []
    if leading < 6:
        net = net.with_inputs(slice(None, leading), z[0])
        z = [z[0][:, :, :leading].contiguous(), *z[1:]]
    expected = log_force(net, z, STATE, prior, frames, widths=WIDTHS)
    for chain in (0, 1):
        force = CompiledForce(network_of_chain(net, chain), prior, frames, WIDTHS)
        for _ in range(2):  # a second call must not depend on the arrays of the first
            by_state = force([q[chain].numpy() for q in z], STATE[chain].numpy())
            torch.testing.assert_close(tensors(force), [g[chain] for g in expected.by_z])
            torch.testing.assert_close(torch.from_numpy(by_state), expected.by_state[chain])


@pytest.mark.parametrize("framed", [False, True])
def test_compiled_force_of_large_outputs_is_that_of_torch(framed):
    """Here float32 is too coarse for the products of the features."""
    theta_hat, x, y = raw(40, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float32)
    prior = prior_of(theta_hat, x)
    z = [q.float() for q in draw_z(net, 1)]
    state = state_of([3.0, -0.7, 0.0, 0.0, 0.0])
    scales = prior.scales(state)
    strength = float(signal(hidden_features(net, z, scales, widths=WIDTHS), scales.rho))
    assert ROUGH_SIGNAL < strength < LARGEST_SIGNAL
    frames = find_frames(net, prior, [(z, state)]) if framed else []
    expected = log_force(net, z, state, prior, frames, widths=WIDTHS)
    force = CompiledForce(net, prior, frames, WIDTHS)
    by_state = force([q[0].numpy() for q in z], state[0].numpy())
    for by_z, expected_by_z in zip(tensors(force), expected.by_z, strict=True):
        # features are in float32
        assert float((by_z - expected_by_z[0]).norm()) < 1e-4 * float(expected_by_z.norm())
    torch.testing.assert_close(
        torch.from_numpy(by_state), expected.by_state[0], rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("leading", [6, 3])
def test_force_on_the_first_layer_alone_is_the_same(leading):
    net, prior = problem()
    z = draw_z(net, 1)
    if leading < 6:
        net = net.with_inputs(slice(None, leading), z[0])
        z = [z[0][:, :, :leading].contiguous(), *z[1:]]
    expected = log_force(net, z, STATE[:1], prior, widths=WIDTHS)
    force = CompiledForce(net, prior, [], WIDTHS)
    scales = prior.plain_scales(STATE[0].numpy())
    by_z = force.by_first_layer([q[0].numpy() for q in z], scales)
    torch.testing.assert_close(torch.from_numpy(by_z), expected.by_z[0][0])


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 3)])
def test_compiled_density_is_that_of_torch(hidden):
    net, prior = problem(hidden)
    state = state_of([-2.0, -0.7, *[0.1 * i for i in range(len(hidden) + 1)]])
    state = torch.cat([state, state + 0.3])
    z = draw_z(net, 2)
    net = net.with_inputs(slice(None, 3), z[0])
    first = z[0][:, :, :3].contiguous()
    expected = log_density(net, [first, *z[1:]], state, prior)
    for chain in (0, 1):
        density = CompiledDensity(network_of_chain(net, chain), prior)
        for _ in range(2):
            density.set_weights([q[chain].numpy() for q in (first, *z[1:])])
            assert density(state[chain].numpy()) == pytest.approx(float(expected[chain]), rel=1e-12)


@pytest.mark.parametrize("bad", [70.0, float("nan"), 50.0])
def test_compiled_density_outside_the_range_of_numbers_is_minus_infinity(bad):
    net, prior = problem()
    density = CompiledDensity(net, prior)
    density.set_weights([q[0].numpy() for q in draw_z(net, 1)])
    state = STATE[0].numpy().copy()
    assert np.isfinite(density(state))
    state[0] = bad
    assert density(state) == -np.inf


def test_compiled_force_of_one_and_three_hidden_layers_is_that_of_torch():
    for hidden, widths in (((4,), (0.4,)), ((4, 3, 3), (0.4, 0.3, 0.2))):
        net, prior = problem(hidden)
        state = state_of([-2.0, -0.7, *[0.1 * i for i in range(len(hidden) + 1)]])
        z = draw_z(net, 1)
        expected = log_force(net, z, state, prior, widths=widths)
        force = CompiledForce(net, prior, [], widths)
        by_state = force([q[0].numpy() for q in z], state[0].numpy())
        torch.testing.assert_close(tensors(force), [g[0] for g in expected.by_z])
        torch.testing.assert_close(torch.from_numpy(by_state), expected.by_state[0])


def test_compiled_code_is_for_networks_of_one_prior_width_and_one_set_of_labels():
    net, _ = problem()
    theta_hat, x, y = raw(7, 5)
    scaled = whiten_scaled(theta_hat, sds_of(theta_hat), x, y, device=CPU, dtype=torch.float64)
    assert has_compiled_code(net)
    assert not has_compiled_code(scaled) and not has_compiled_code(
        dataclasses.replace(net, y=net.y.expand(2, -1))
    )


def test_rounded_path_is_reversible_with_exact_energies():
    net, prior = problem()
    flights = 0.3 * torch.eye(4, dtype=torch.float64)
    u = torch.randn(STATE.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    start = Phase(draw_z(net, 2), STATE, draw_z(net, 2, seed=1), u)
    settings = {"prior": prior, "directions": flights, "step": 0.1, "n_steps": 20, "widths": WIDTHS}
    end, error, _ = path(net, start, **settings)
    exact = [p.energy - log_force(net, p.z, p.state, prior).value for p in (start, end)]
    torch.testing.assert_close(error, exact[1] - exact[0])
    back, error_back, _ = path(
        net, Phase(end.z, end.state, [-v for v in end.v], -end.u), **settings
    )
    torch.testing.assert_close(back.z, start.z, rtol=0, atol=1e-9)
    torch.testing.assert_close(back.state, start.state, rtol=0, atol=1e-9)
    torch.testing.assert_close(error_back, -error, rtol=0, atol=1e-9)


def test_chain_without_a_compiled_force_does_not_change_other_chains():
    net, prior = problem()
    z = draw_z(net, 2)
    net = net.with_inputs(slice(None, 3), z[0])
    z = [z[0][:, :, :3].contiguous(), *z[1:]]
    state = torch.cat([STATE[:1], state_of([14.0, -0.7, 0.0, 0.0, 0.0])])
    assert (
        CompiledForce(network_of_chain(net, 1), prior, [], WIDTHS)(
            [q[1].numpy() for q in z], state[1].numpy()
        )
        is None
    )
    still = Phase(
        z, state, [torch.zeros_like(q) for q in z], torch.zeros(2, 4, dtype=torch.float64)
    )
    settings = {
        "prior": prior,
        "directions": 0.1 * torch.eye(4, dtype=torch.float64),
        "step": 0.01,
        "n_steps": 2,
    }
    both, *_ = path(net, still, widths=WIDTHS, **settings)
    for chain in (0, 1):
        one = slice(chain, chain + 1)
        alone = dataclasses.replace(net, fixed_preactivation=net.fixed_preactivation[one])
        start = Phase([q[one] for q in z], state[one], [v[one] for v in still.v], still.u[one])
        end, *_ = path(alone, start, widths=WIDTHS, **settings)
        assert torch.equal(both.state[one], end.state)
        assert all(torch.equal(a[one], b) for a, b in zip(both.v, end.v, strict=True))
