"""Partially centred coordinates: Jacobian, forces that are gradients, and the posterior."""

import dataclasses

import pytest
import torch
from scipy import stats

from bandgap.inference.network import partial_centring
from bandgap.inference.network.joint_density import log_force
from bandgap.inference.network.joint_hmc import Phase, path, square_norm, step_joint
from bandgap.inference.network.partial_centring import (
    LINEARISED,
    find_frames,
    from_frames,
    gradient_pairs,
    to_frames,
)
from bandgap.inference.network.whitened_network import hidden_features, integrate_output, whiten
from tests.unit.inference.network.problems import (
    CPU,
    draw_z,
    free_priors_of,
    prior_of,
    raw,
    slope,
    state_of,
    with_labels_from_the_model,
)

STATE = state_of([-2.0, -0.7, -0.5, 0.2, -0.4], [-4.0, -0.2, 0.1, -1.2, 0.3])
# wide scales, where the data determine much of the weights
INFORMED = STATE + 4.0 * torch.tensor([0.0, 1.0, 1.0, 1.0])
FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
CHAINS = 3000


def frames_of(net, prior, *, states=STATE):
    """Return frames found at other states than they are used at: the law holds for any frames."""
    return find_frames(net, prior, [(draw_z(net, len(states), seed=5), states)])


@pytest.fixture(scope="module", params=["point estimate", "inverse gamma"])
def problem(request):
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = free_priors_of(theta_hat, x)[request.param]
    state = prior.draw(2, generator=torch.Generator().manual_seed(1))
    return net, prior, frames_of(net, prior, states=state - 0.5), state


def log_density(net, prior, frames, zeta, state):
    """Return the log density of (zeta, scales) without exp(-|zeta|^2 / 2).

    It is that at z plus the log Jacobian by automatic differentiation.
    """
    scales = prior.scales(state)
    z = from_frames(frames, zeta, scales).z
    value = integrate_output(
        net, hidden_features(net, z, scales), scales
    ).log_likelihood + prior.log_density(state)
    jacobian = torch.zeros_like(value)
    for i, q in enumerate(zeta):
        for chain in range(q.shape[0]):
            of_one = dataclasses.replace(scales, s=scales.s[chain : chain + 1])

            def moved(flat, i=i, q=q, chain=chain, of_one=of_one):
                at = [p[chain : chain + 1] for p in zeta]
                at[i] = flat.reshape(1, *q.shape[1:])
                return from_frames(frames, at, of_one).z[i].flatten()

            matrix = torch.autograd.functional.jacobian(moved, q[chain].flatten())
            jacobian[chain] += torch.linalg.slogdet(matrix).logabsdet
    return value + jacobian + 0.5 * (square_norm(zeta) - square_norm(z))


def test_coordinates_to_and_from_frames_are_inverse(problem):
    net, prior, frames, state = problem
    z = draw_z(net, 2)
    scales = prior.scales(state)
    zeta = to_frames(frames, z, scales)
    assert all(float((a - b).abs().max()) > 0.01 for a, b in zip(zeta, z, strict=True))
    torch.testing.assert_close(from_frames(frames, zeta, scales).z, z, rtol=0, atol=1e-12)


def test_value_of_the_force_counts_the_jacobian_up_to_a_constant(problem):
    net, prior, frames, state = problem
    zeta = draw_z(net, 2)
    value = log_force(net, zeta, state, prior, frames).value
    expected = log_density(net, prior, frames, zeta, state)
    torch.testing.assert_close(value[0] - value[1], expected[0] - expected[1], rtol=0, atol=1e-8)


@pytest.mark.parametrize("layer", [0, 1])
def test_force_on_the_weights_is_that_of_central_differences(problem, layer):
    net, prior, frames, state = problem
    zeta = draw_z(net, 2)

    def value(at):
        moved = [at if i == layer else q for i, q in enumerate(zeta)]
        return log_force(net, moved, state, prior, frames).value

    gradient = log_force(net, zeta, state, prior, frames).by_z[layer] - zeta[layer]
    expected = slope(lambda at: value(at) - 0.5 * (at**2).sum((1, 2)), zeta[layer])
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-6)


def test_force_on_the_scales_is_that_of_central_differences(problem):
    net, prior, frames, state = problem
    zeta = draw_z(net, 2)
    by_state = log_force(net, zeta, state, prior, frames).by_state
    expected = slope(lambda at: log_force(net, zeta, at, prior, frames).value, state)
    torch.testing.assert_close(by_state, expected, rtol=1e-6, atol=1e-6)


def test_path_with_reversed_momenta_returns(problem):
    net, prior, frames, state = problem
    u = torch.randn(state.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    start = Phase(draw_z(net, 2), state, draw_z(net, 2, seed=1), u)
    flights = 0.3 * torch.eye(state.shape[1], dtype=torch.float64)
    settings = {"prior": prior, "directions": flights, "step": 0.1, "n_steps": 15, "frames": frames}
    end, error, _ = path(net, start, **settings)
    assert float((end.state - state).abs().max()) > 0.02
    back, error_back, _ = path(
        net, Phase(end.z, end.state, [-v for v in end.v], -end.u), **settings
    )
    torch.testing.assert_close(back.z, start.z, rtol=0, atol=1e-8)
    torch.testing.assert_close(back.state, start.state, rtol=0, atol=1e-8)
    torch.testing.assert_close(error_back, -error, rtol=0, atol=1e-8)


@pytest.mark.statistical
@pytest.mark.parametrize("widths", [(), (0.2, 0.2)])
@pytest.mark.parametrize("prior_name", ["point estimate", "inverse gamma"])
def test_paths_keep_the_joint_law_of_weights_scales_and_labels(prior_name, widths):
    """With labels from the model, scales and z still follow the prior after paths."""
    theta_hat, x, y = raw(6, 4)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = free_priors_of(theta_hat, x)[prior_name]
    generator = torch.Generator().manual_seed(3)
    start = prior.draw(CHAINS, generator=generator)
    z = draw_z(net, CHAINS, seed=4)
    labelled = with_labels_from_the_model(net, z, prior.scales(start), generator=generator)
    frames = frames_of(net, prior, states=start[:4])
    state = start
    accepted = []
    flights = 0.5 * torch.eye(start.shape[1], dtype=torch.float64)
    for _ in range(4):
        z, state, transition = step_joint(
            labelled,
            z,
            state,
            prior=prior,
            directions=flights,
            step=0.15,
            n_steps=8,
            generator=generator,
            frames=frames,
            widths=widths,
        )
        accepted.append(transition.accepted.double().mean())
    assert float(torch.stack(accepted).mean()) > 0.5 and float((state - start).abs().median()) > 0.2
    after = prior.judged(state.numpy())
    expected = prior.judged(prior.draw(40_000, generator=generator).numpy())
    for name, values in after.items():
        assert stats.ks_2samp(values, expected[name]).pvalue > FALSE_ALARM / 8, name
    for q in z:
        size = q[0].numel()
        assert stats.kstest(square_norm([q]).numpy(), stats.chi2(size).cdf).pvalue > FALSE_ALARM / 8


def plain_variances(net, prior, z, state, frames):
    """Return the posterior variances of zeta's coordinates at one visit, by inverting I + J'J."""
    scales = prior.scales(state)
    variances = []
    for chain in range(len(state)):
        one = slice(chain, chain + 1)
        pairs = gradient_pairs(net, [q[one] for q in z], prior.scales(state[one]))
        columns = []
        for i, (frame, (g, h)) in enumerate(zip(frames, pairs, strict=True)):
            right = (
                torch.eye(h.shape[1], dtype=torch.float64)
                if frame.input_directions is None
                else frame.input_directions
            )
            grown = float(torch.exp(frame.log_scale - torch.log(scales.s[chain, i])))
            columns.append(
                grown
                * torch.einsum("no,ni->noi", g @ frame.output_directions, h @ right).flatten(1)
            )
        wide = torch.cat(columns, 1)
        inverse = torch.linalg.inv(torch.eye(wide.shape[1], dtype=torch.float64) + wide.T @ wide)
        sizes = [
            frame.output_directions.shape[0] * pair[1].shape[1]
            for frame, pair in zip(frames, pairs, strict=True)
        ]
        variances.append(inverse.diagonal().split(sizes))
    return [torch.stack(layers).mean(0) for layers in zip(*variances, strict=True)]


def test_directions_of_frames_diagonalise_the_kronecker_factors_of_the_fisher_information():
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = prior_of(theta_hat, x)
    z = draw_z(net, 2)
    pairs = gradient_pairs(net, z, prior.scales(INFORMED))
    for frame, (g, h) in zip(find_frames(net, prior, [(z, INFORMED)]), pairs, strict=True):
        right = (
            torch.eye(h.shape[1], dtype=torch.float64)
            if frame.input_directions is None
            else frame.input_directions
        )
        for columns, gram in ((frame.output_directions, g.T @ g), (right, h.T @ h)):
            torch.testing.assert_close(
                columns.T @ columns, torch.eye(len(gram), dtype=torch.float64)
            )
            turned = columns.T @ gram @ columns
            torch.testing.assert_close(
                turned, torch.diag(turned.diagonal()), rtol=0, atol=1e-8 * float(gram.max())
            )


def test_information_of_frames_is_that_of_linearised_models_at_the_last_visits():
    """At the frames' scale f^2 is the posterior variance, a mean over chains and visits."""
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = prior_of(theta_hat, x)
    visits = [(draw_z(net, 2, seed=seed), INFORMED + 0.1 * seed) for seed in range(LINEARISED + 1)]
    frames = find_frames(net, prior, visits)
    by_visit = [plain_variances(net, prior, z, state, frames) for z, state in visits[1:]]
    assert float(by_visit[0][0].min()) < 0.9
    for layer, frame in enumerate(frames):
        expected = (
            torch.stack([variances[layer] for variances in by_visit])
            .mean(0)
            .reshape(frame.information.shape)
        )
        at_home = frame.factors(torch.tensor([frame.log_scale], dtype=torch.float64))[0]
        torch.testing.assert_close(at_home**2, expected, rtol=1e-8, atol=1e-10)


def test_information_of_many_rows_is_taken_from_a_subset_that_represents_all(monkeypatch):
    """Every row is repeated, and every second one is taken."""
    theta_hat, x, y = raw(7, 5)
    twice = whiten(
        theta_hat,
        x.repeat_interleave(2, 0),
        y.repeat_interleave(2),
        device=CPU,
        dtype=torch.float64,
    )
    prior = prior_of(theta_hat, x)
    z = draw_z(twice, 2)
    every = find_frames(twice, prior, [(z, INFORMED)])
    monkeypatch.setattr(partial_centring, "MAX_ROWS", 7)
    for subset, complete in zip(find_frames(twice, prior, [(z, INFORMED)]), every, strict=True):
        torch.testing.assert_close(subset.information, complete.information, rtol=1e-9, atol=1e-12)


def test_frames_of_leading_inputs_are_those_of_a_model_without_the_others():
    theta_hat, x, y = raw(7, 5)
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    prior = prior_of(theta_hat, x)
    z = draw_z(net, 2)
    first, second = find_frames(net, prior, [(z, INFORMED)], leading=3)
    part = net.with_inputs(slice(None, 3), z[0])
    lead = [z[0][:, :, :3], z[1]]
    expected = find_frames(part, prior, [(lead, INFORMED)])
    torch.testing.assert_close(first.information, expected[0].information)
    torch.testing.assert_close(second.information, expected[1].information)
    assert first.information.shape == (4, 3)
