"""Forces are gradients, paths are reversible and of second order, divergent paths are flagged."""

import math

import pytest
import torch

from bandgap.inference.network.joint_density import LARGEST_LOG, log_force
from bandgap.inference.network.joint_hmc import Phase, path, step_joint
from bandgap.inference.network.pcp_scales import variational_scales
from bandgap.inference.network.whitened_network import hidden_features, integrate_output, whiten
from bandgap.research.shared.scaled_network import whiten_scaled
from tests.unit.inference.network.problems import (
    CPU,
    draw_z,
    prior_of,
    raw,
    sds_of,
    slope,
    state_of,
)

FINE = [-2.0, -0.7, -0.5, 0.2, -0.4]
STATE = state_of(FINE, [-4.0, -0.2, 0.1, -1.2, 0.3])
# arbitrary and not symmetric, so that a transposed matrix is detected
FLIGHTS = (
    0.3 * torch.eye(4, dtype=torch.float64) + 0.1 * torch.ones(4, 4, dtype=torch.float64).triu()
)


@pytest.fixture(scope="module", params=["point estimate", "variational"])
def problem(request):
    theta_hat, x, y = raw(7, 5)
    if request.param == "point estimate":
        return whiten(theta_hat, x, y, device=CPU, dtype=torch.float64), prior_of(theta_hat, x)
    net = whiten_scaled(theta_hat, sds_of(theta_hat), x, y, device=CPU, dtype=torch.float64)
    return net, variational_scales((24, 15, 4), lam=0.05, noise_b=0.2, device=CPU)


def phase_of(net, state=STATE, *, seed=0):
    generator = torch.Generator().manual_seed(seed + 100)
    u = torch.randn(state.shape, generator=generator, dtype=torch.float64)
    chains = state.shape[0]
    return Phase(draw_z(net, chains, seed=seed), state, draw_z(net, chains, seed=seed + 1), u)


def log_density(net, prior, z, state):
    scales = prior.scales(state)
    return integrate_output(
        net, hidden_features(net, z, scales), scales
    ).log_likelihood + prior.log_density(state)


def test_value_of_the_force_is_log_likelihood_plus_prior_of_the_scales(problem):
    net, prior = problem
    z = draw_z(net, 2)
    torch.testing.assert_close(
        log_force(net, z, STATE, prior).value, log_density(net, prior, z, STATE)
    )


@pytest.mark.parametrize("layer", [0, 1])
def test_force_on_the_weights_is_that_of_central_differences(problem, layer):
    net, prior = problem
    z = draw_z(net, 2)

    def value(at):
        return log_density(net, prior, [at if i == layer else q for i, q in enumerate(z)], STATE)

    by_z = log_force(net, z, STATE, prior).by_z[layer]
    torch.testing.assert_close(by_z, slope(value, z[layer]), rtol=1e-6, atol=1e-6)


def test_force_on_the_scales_is_that_of_central_differences(problem):
    net, prior = problem
    z = draw_z(net, 2)
    by_state = log_force(net, z, STATE, prior).by_state
    expected = slope(lambda state: log_density(net, prior, z, state), STATE)
    torch.testing.assert_close(by_state, expected, rtol=1e-6, atol=1e-6)


def test_path_with_reversed_momenta_returns(problem):
    net, prior = problem
    start = phase_of(net, seed=3)
    settings = {"prior": prior, "directions": FLIGHTS, "step": 0.1, "n_steps": 20}
    end, error, _ = path(net, start, **settings)
    assert float((end.state - STATE).abs().min()) > 0.02
    back, error_back, _ = path(
        net, Phase(end.z, end.state, [-v for v in end.v], -end.u), **settings
    )
    torch.testing.assert_close(back.z, start.z, rtol=0, atol=1e-9)
    torch.testing.assert_close(back.state, start.state, rtol=0, atol=1e-9)
    torch.testing.assert_close(back.v, [-v for v in start.v], rtol=0, atol=1e-9)
    torch.testing.assert_close(back.u, -start.u, rtol=0, atol=1e-9)
    torch.testing.assert_close(error_back, -error, rtol=0, atol=1e-9)


def test_path_keeps_volume(problem):
    """The Jacobian of one step in all 2 (24 + 15 + 4) coordinates has determinant 1."""
    net, prior = problem
    start = phase_of(net, STATE[:1])
    parts = [*start.z, start.state, *start.v, start.u]

    def flat(phase):
        return torch.cat([q.flatten(1) for q in [*phase.z, phase.state, *phase.v, phase.u]], 1)

    def end(at):
        q = [
            a.reshape(1, *b.shape[1:])
            for a, b in zip(at.split([b[0].numel() for b in parts], 1), parts, strict=True)
        ]
        moved = path(
            net,
            Phase(q[:2], q[2], q[3:5], q[5]),
            prior=prior,
            directions=FLIGHTS,
            step=0.2,
            n_steps=1,
        )[0]
        return flat(moved)[0]

    at = flat(start)
    e = 1e-6
    columns = [
        (end(at + e * unit) - end(at - e * unit)) / (2 * e)
        for unit in torch.eye(at.shape[1]).double()
    ]
    assert float(torch.linalg.det(torch.stack(columns))) == pytest.approx(1.0, abs=1e-5)


def test_energy_error_falls_with_the_square_of_the_step(problem):
    """The path is so short that no unit of the network switches on or off on it."""
    net, prior = problem
    start = phase_of(net)
    errors = torch.stack(
        [
            path(net, start, prior=prior, directions=FLIGHTS, step=0.04 / k, n_steps=k)[1].abs()
            for k in (4, 8, 16)
        ]
    )
    torch.testing.assert_close(
        errors[:-1] / errors[1:], torch.full((2, 2), 4.0, dtype=torch.float64), rtol=0.05, atol=0
    )


def test_prior_of_the_weights_is_followed_without_error():
    """With no information (sigma huge, scales fixed), a step of any size is exact."""
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    start = phase_of(net, state_of([-30.0, 12.0, 0.0, 0.0, 0.0]))
    still = torch.zeros(4, 4, dtype=torch.float64)
    end, error, _ = path(
        net, start, prior=prior_of(theta_hat, x), directions=still, step=1.5, n_steps=7
    )
    assert float(error.abs().max()) < 1e-6
    angle = 1.5 * 7
    expected = [
        math.cos(angle) * q + math.sin(angle) * v for q, v in zip(start.z, start.v, strict=True)
    ]
    torch.testing.assert_close(end.z, expected, rtol=0, atol=1e-4)


def one_step(net, prior, z, state, *, step, n_steps=10, directions=FLIGHTS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return step_joint(
        net,
        z,
        state,
        prior=prior,
        directions=directions,
        step=step,
        n_steps=n_steps,
        generator=generator,
    )


@pytest.mark.parametrize("step", [10.0, 1000.0])
def test_absurd_step_diverges_and_does_not_move_the_chain(problem, step):
    net, prior = problem
    z = draw_z(net, 2)
    moved, state, did = one_step(net, prior, z, STATE, step=step)
    assert bool(did.divergent.all()) and not bool(did.accepted.any())
    assert torch.equal(did.accept, torch.zeros(2, dtype=torch.float64))
    assert torch.equal(state, STATE)
    assert all(torch.equal(a, b) for a, b in zip(moved, z, strict=True))


BAD = {
    "log t above the range": [2 * LARGEST_LOG, 0.0, 0.0, 0.0, 0.0],
    "log sigma below the range": [0.0, -2 * LARGEST_LOG, 0.0, 0.0, 0.0],
    "w above the range": [0.0, 0.0, 0.0, 100.0, 0.0],
    "not a number": [0.0, 0.0, math.nan, 0.0, 0.0],
    "infinite": [math.inf, 0.0, 0.0, 0.0, 0.0],
    "signal too large to factor": [50.0, 0.0, 0.0, 0.0, 0.0],
    "sigma so large that float32 overflows": [30.0, 59.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("row", BAD.values(), ids=BAD)
def test_state_out_of_range_has_no_density_and_force_and_does_not_change_other_chains(row, dtype):
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=dtype)
    prior = prior_of(theta_hat, x)
    z = draw_z(net, 2)
    state = state_of(FINE, row)
    force = log_force(net, z, state, prior)
    alone = log_force(net, [q[:1] for q in z], state[:1], prior)
    assert float(force.value[1]) == -math.inf
    assert not bool(force.by_state[1].any()) and not any(bool(g[1].any()) for g in force.by_z)
    close = (
        {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    )
    torch.testing.assert_close(force.value[:1], alone.value, **close)
    torch.testing.assert_close(force.by_state[:1], alone.by_state, **close)
    torch.testing.assert_close([g[:1] for g in force.by_z], alone.by_z, **close)


def test_chain_whose_path_leaves_the_range_is_rejected_while_the_other_moves(problem):
    """The second chain starts so close to the edge that its free flight crosses it."""
    net, prior = problem
    z = draw_z(net, 2)
    edge = STATE.clone()
    edge[1] = torch.tensor([0.0, -LARGEST_LOG + 0.001, -30.0, -30.0])
    flights = torch.diag(torch.tensor([0.0, 30.0, 0.0, 0.0], dtype=torch.float64))
    crossed = 0
    for seed in range(8):
        moved, state, did = one_step(
            net, prior, z, edge, step=1e-4, n_steps=3, directions=flights, seed=seed
        )
        assert bool(did.accepted[0]) and not torch.equal(state[0], edge[0])
        if bool(did.divergent[1]):
            crossed += 1
            assert float(did.accept[1]) == 0
            assert torch.equal(state[1], edge[1]) and torch.equal(moved[0][1], z[0][1])
    assert crossed > 0
