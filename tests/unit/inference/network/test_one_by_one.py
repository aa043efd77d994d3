"""Every move of chains on a CPU, one after the other, keeps the posterior.

Split inputs, frames and rounded ReLU are used together. Weights and scales are drawn from the prior
and labels from the model, so that after moves given the labels both still follow the prior. Every
chain has separate labels and is moved as the only chain of a network.
"""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.compiled_density import (
    CompiledDensity,
    has_compiled_code,
    network_of_chain,
)
from bandgap.inference.network.input_split import step_trailing
from bandgap.inference.network.joint_density import (
    LARGEST_LOG,
    ROUGH_SIGNAL,
    exact_value,
    log_density,
    signal,
)
from bandgap.inference.network.joint_hmc import Phase, path, square_norm, step_joint
from bandgap.inference.network.partial_centring import find_frames
from bandgap.inference.network.scale_moves import step_scales
from bandgap.inference.network.whitened_network import hidden_features, whiten
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
CHAINS = 500
LEADING = 3
WIDTHS = (0.2, 0.2)


def simulated(name):
    """Return a network of 6 rows with separate labels, its prior, frames, and (z, state) draws."""
    theta_hat, x, y = raw(6, 4)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = free_priors_of(theta_hat, x)[name]
    generator = torch.Generator().manual_seed(3)
    state = prior.draw(CHAINS, generator=generator)
    z = draw_z(net, CHAINS, seed=4)
    labelled = with_labels_from_the_model(net, z, prior.scales(state), generator=generator)
    visited = [(draw_z(net, 4, seed=5), state[:4])]  # the law holds for any frames
    return labelled, prior, find_frames(net, prior, visited, leading=LEADING), z, state


def long_path(net, z, state, prior, frames, generator):
    part = net.with_inputs(slice(None, LEADING), z[0])
    assert has_compiled_code(part)
    moved, state, _ = step_joint(
        part,
        [z[0][:, :, :LEADING].contiguous(), *z[1:]],
        state,
        prior=prior,
        directions=0.5 * torch.eye(state.shape[1], dtype=torch.float64),
        step=0.15,
        n_steps=8,
        generator=generator,
        frames=frames,
        widths=WIDTHS,
    )
    return [torch.cat([moved[0], z[0][:, :, LEADING:]], 2), *moved[1:]], state


def trailing_path(net, z, state, prior, frames, generator):
    z, _ = step_trailing(
        net,
        z,
        state,
        prior=prior,
        leading=LEADING,
        step=0.3,
        max_steps=20,
        generator=generator,
        widths=WIDTHS,
    )
    return z, state


def plain_slices(net, z, state, prior, frames, generator):
    directions = 1.5 * torch.eye(state.shape[1], dtype=torch.float64)
    return z, step_scales(net, z, state, prior=prior, directions=directions, generator=generator)


def iteration(net, z, state, prior, frames, generator):
    for move in (long_path, trailing_path, plain_slices):
        z, state = move(net, z, state, prior, frames, generator)
    return z, state


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["point estimate", "inverse gamma"])
@pytest.mark.parametrize(
    "move, times", [(long_path, 4), (trailing_path, 3), (plain_slices, 3), (iteration, 2)]
)
def test_moves_of_single_chains_keep_the_joint_law(move, times, name):
    labelled, prior, frames, start_z, start = simulated(name)
    generator = torch.Generator().manual_seed(7)
    ends = []
    for i, y in enumerate(labelled.y):
        z = [q[i : i + 1] for q in start_z]
        state = start[i : i + 1]
        for _ in range(times):
            z, state = move(dataclasses.replace(labelled, y=y), z, state, prior, frames, generator)
        ends.append((z, state))
    z = [torch.cat(layers) for layers in zip(*(z for z, _ in ends), strict=True)]
    state = torch.cat([state for _, state in ends])
    moved = [
        (a != b).flatten(1).any(1).double().mean()
        for a, b in zip([*z, state], [*start_z, start], strict=True)
    ]
    assert float(max(moved)) > 0.8
    after = prior.judged(state.numpy())
    expected = prior.judged(prior.draw(40_000, generator=generator).numpy())
    for name, values in after.items():
        assert stats.ks_2samp(values, expected[name]).pvalue > FALSE_ALARM / 8, name
    for q in z:
        law = stats.chi2(q[0].numel()).cdf
        assert stats.kstest(square_norm([q]).numpy(), law).pvalue > FALSE_ALARM / 8


@pytest.mark.parametrize("hidden", [(4,), (4, 3), (4, 3, 3)])
@pytest.mark.parametrize("leading", [6, 3])
def test_compiled_density_in_frames_is_that_of_torch(hidden, leading):
    theta_hat, x, y = raw(7, 5, hidden=hidden)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = prior_of(theta_hat, x)
    state = prior.draw(2, generator=torch.Generator().manual_seed(2))
    z = draw_z(net, 2)
    frames = find_frames(net, prior, [(z, state)], leading=leading)
    if leading < 6:
        net = net.with_inputs(slice(None, leading), z[0])
        z = [z[0][:, :, :leading].contiguous(), *z[1:]]
    expected = exact_value(net, z, state, prior, frames)
    for chain in (0, 1):
        density = CompiledDensity(network_of_chain(net, chain), prior, frames)
        for _ in range(2):
            value = density.in_frames([q[chain].numpy() for q in z], state[chain].numpy())
            assert value == pytest.approx(float(expected[chain]), rel=1e-12)


@pytest.mark.parametrize("log_t, rough", [(0.0, False), (3.0, True)])
def test_trailing_paths_of_small_steps_are_accepted_at_any_signal(log_t, rough):
    """The force is that of the energy also where products in float32 would be too rough."""
    theta_hat, x, y = raw(40, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = prior_of(theta_hat, x)
    z = draw_z(net, 4)
    state = state_of(*[[log_t, -0.7, 0.0, 0.0, 0.0]] * 4)
    scales = prior.scales(state)
    generator = torch.Generator().manual_seed(1)
    assert bool((signal(hidden_features(net, z, scales), scales.rho) > ROUGH_SIGNAL).any()) == rough
    settings = {"leading": 2, "step": 0.004, "max_steps": 2000, "widths": (0.03, 0.03)}
    _, did = step_trailing(net, z, state, prior=prior, generator=generator, **settings)
    assert float(did.accept.min()) > 0.95


def test_scale_beyond_float32_has_no_density_and_an_infinite_path_error():
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float32)
    prior = prior_of(theta_hat, x)
    z = draw_z(net, 1)
    extreme = state_of([59.9, 59.9, 0.0, 0.0, 0.0])
    assert (
        float(extreme.abs().max()) < LARGEST_LOG
        and float(log_density(net, z, extreme, prior)) == -np.inf
    )
    density = CompiledDensity(net, prior)
    density.set_weights([q[0].numpy() for q in z])
    assert density(extreme[0].numpy()) == -np.inf
    start = Phase(
        z,
        state_of([50.0, 50.0, 0.0, 0.0, 0.0]),
        draw_z(net, 1, seed=1),
        torch.tensor([[9.9, 9.9, 9.9, 9.9]]).double(),
    )
    settings = {
        "prior": prior,
        "directions": torch.eye(4, dtype=torch.float64),
        "step": 0.5,
        "n_steps": 2,
    }
    _, error, _ = path(net, start, widths=(0.2, 0.2), **settings)
    assert not bool(torch.isfinite(error).any())
