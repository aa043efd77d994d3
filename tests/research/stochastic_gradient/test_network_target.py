"""The network's posterior as a sum over rows.

Its gradient by autograd, and the law of the units.
"""

import math

import numpy as np
import pytest
import torch

from bandgap.inference.network.whitened_network import whiten
from bandgap.research.stochastic_gradient.gradients import batch_gradient
from bandgap.research.stochastic_gradient.mode_search import climb
from bandgap.research.stochastic_gradient.network_target import network_target
from tests.unit.inference.network.problems import CPU, plain, prior_of, raw


@pytest.fixture(scope="module")
def problem():
    theta_hat, x, y = raw(12, 5, hidden=(4, 3))
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float64)
    return network_target(net, prior_of(theta_hat, x)), theta_hat, x, y


def positions(target, chains=3, seed=0):
    rng = torch.Generator().manual_seed(seed)
    z = [
        0.7 * torch.randn(chains, *shape, generator=rng, dtype=torch.float64)
        for shape in target.shapes
    ]
    return target.position(z, target.prior.start(chains, log_sd=0.0, generator=rng))


def log_posterior(target, theta_hat, x, y, position):
    """Written down plainly.

    Theta from z by the whole first layer, normal labels, normal z, the scales' own density.
    """
    z = target.layers(position)
    state = target.state(position)
    scales = target.prior.scales(state)
    moved = [q * scales.s[:, i, None, None] for i, q in enumerate(z)]
    moved[0] = moved[0] @ target.net.basis.T
    theta = [t + m for t, m in zip(theta_hat, moved, strict=True)]
    residual = y - plain(theta, x.expand(len(position), -1, -1))
    sigma = scales.sigma[:, None]
    likelihood = (
        -0.5 * (residual / sigma) ** 2 - torch.log(sigma) - 0.5 * math.log(2 * math.pi)
    ).sum(1)
    prior = target.prior.log_density(state) - 0.5 * sum((q**2).sum((1, 2)) for q in z)
    relative = torch.log(scales.s / scales.sigma[:, None])
    volume = [
        torch.log(frame.factors(relative[:, i])).sum((1, 2))
        for i, frame in enumerate(target.frames)
    ]
    return likelihood + prior + sum(volume)


@pytest.mark.parametrize("framed, turn", [(False, False), (True, False), (True, True)])
def test_full_gradient_is_that_of_the_log_posterior(problem, framed, turn):
    target, *parts = problem
    if framed:
        target, _ = target.reframed(positions(target)[:2], torch.arange(12), turn=turn)
        assert float(max(frame.information.max() for frame in target.frames)) > 1
    position = (positions(target) + 0.1).requires_grad_()
    (expected,) = torch.autograd.grad(log_posterior(target, *parts, position).sum(), position)
    gradient = batch_gradient(target, torch.arange(12).expand(3, 12))(position.detach()).total
    np.testing.assert_allclose(gradient, expected, atol=1e-9 * float(expected.abs().max()))


def test_position_comes_back_through_frames_and_units(problem):
    target, *_ = problem
    at = positions(target)
    framed, moved = target.reframed(at[:1], torch.arange(12))
    np.testing.assert_allclose(framed.layers(moved)[0], target.layers(at[:1])[0], atol=1e-10)
    everywhere = framed.position(target.layers(at), target.state(at))
    np.testing.assert_allclose(framed.layers(everywhere)[1], target.layers(at)[1], atol=1e-10)
    np.testing.assert_allclose(framed.state(everywhere), target.state(at), atol=1e-10)


def test_frames_found_elsewhere_leave_positions_where_they_are(problem):
    target, *_ = problem
    at = positions(target)
    rows = torch.arange(12)
    expected, _ = target.reframed(at[1:], rows)
    framed, moved = target.reframed(at[:1], rows, frame_positions=at[1:])
    for one, other in zip(framed.frames, expected.frames, strict=True):
        assert torch.equal(one.information, other.information)
    assert torch.equal(framed.units, expected.units)
    assert moved.shape == at[:1].shape
    np.testing.assert_allclose(framed.layers(moved)[0], target.layers(at[:1])[0], atol=1e-10)
    np.testing.assert_allclose(framed.state(moved), target.state(at[:1]), atol=1e-10)


def jacobian(target, position, rows):
    """Gradients of f (n, dim) at one position by every entry of it, by finite differences."""
    columns = []
    for entry in range(position.shape[1]):
        shift = torch.zeros_like(position)
        shift[0, entry] = 1e-6
        columns.append(
            (target.values(position + shift, rows) - target.values(position - shift, rows))[0]
            / 2e-6
        )
    return torch.stack(columns, 1)


@pytest.mark.parametrize("turn", [False, True])
def test_gauss_newton_has_a_diagonal_of_ones_in_the_frames(problem, turn):
    """The dense information of likelihood and prior, by weights and by the state of the scales."""
    target, *_ = problem
    rows = torch.arange(12)
    target, position = target.reframed(positions(target, 1), rows, turn=turn)
    slopes = jacobian(target, position, rows) / float(
        target.prior.scales(target.state(position)).sigma
    )
    first = target.spans[-1][1]
    relative = torch.log(
        target.prior.scales(target.state(position)).s
        / target.prior.scales(target.state(position)).sigma[:, None]
    )
    of_prior = torch.cat(
        [frame.factors(relative[:, i]).flatten() ** 2 for i, frame in enumerate(target.frames)]
    )
    diagonal = (slopes**2).sum(0)
    np.testing.assert_allclose(diagonal[:first] + of_prior, torch.ones(first), rtol=1e-5)
    np.testing.assert_allclose(of_prior, target.free_share[:first], rtol=1e-9)
    parts = diagonal[first + 1 :] + (target.units[1:] / target.prior.units[1:]) ** 2
    np.testing.assert_allclose(parts, torch.ones(len(parts)), rtol=1e-4)


def test_frames_are_the_eigenvectors_that_make_the_dense_information_nearly_diagonal(problem):
    """Turned, less of the dense matrix of a layer is off its diagonal than unturned."""
    target, *_ = problem
    rows = torch.arange(12)
    at = positions(target, 1)
    off = []
    for turn in (False, True):
        framed, position = target.reframed(at, rows, turn=turn)
        first, end = framed.spans[1]
        slopes = jacobian(framed, position, rows)[:, first:end]
        dense = slopes.T @ slopes
        off.append(float((dense - torch.diag(dense.diagonal())).norm() / dense.norm()))
    assert off[1] < 0.8 * off[0]


def test_variance_of_batch_gradients_is_that_over_all_batches(problem):
    """The reference is the mean over all pairs of 12 rows, times (N - 1) / N.

    Batches are without replacement. The mean square of a row's gradient about zero is about that
    about the mean, because the mean is small.
    """
    target, *_ = problem
    rows = torch.arange(12)
    target, position = target.reframed(positions(target, 1), rows)
    row_gradients = torch.stack([target.row_gradient(position, row[None, None])[0] for row in rows])
    first = target.spans[-1][1]
    expected = 12 * (12 / 2 - 1) * (row_gradients**2).mean(0)
    variance = target.batch_variance(position, rows, n_rows=target.n_rows, n_drawn=2)
    np.testing.assert_allclose(variance[:first], expected[:first], rtol=1e-9)
    assert (variance[first:] == 0).all()
    pairs = torch.combinations(rows)
    sums = torch.stack([12 / 2 * target.row_gradient(position, pair[None])[0] for pair in pairs])
    centred = expected - 12 * (12 / 2 - 1) * row_gradients.mean(0) ** 2
    np.testing.assert_allclose(
        sums.var(0, unbiased=False)[:first], (12 / 11 * centred)[:first], rtol=1e-9
    )


def test_chains_have_different_rows(problem):
    target, *_ = problem
    position = positions(target)
    rows = torch.tensor([[0, 1], [5, 3], [11, 2]])
    together = target.row_gradient(position, rows)
    single = [
        sum(target.row_gradient(position[i : i + 1], row[None, None]) for row in rows[i])
        for i in range(3)
    ]
    np.testing.assert_allclose(together, torch.cat(single), atol=1e-10)


def test_values_are_those_of_the_network(problem):
    target, theta_hat, x, _ = problem
    position = positions(target)
    rows = torch.tensor([3, 0, 7])
    scales = target.prior.scales(target.state(position))
    z = target.layers(position)
    theta = [t + scales.s[:, i, None, None] * (q @ target.net.basis.T if i == 0 else q)
             for i, (t, q) in enumerate(zip(theta_hat, z, strict=True))]  # fmt: skip
    np.testing.assert_allclose(
        target.values(position, rows), plain(theta, x[rows].expand(3, -1, -1)), atol=1e-10
    )


def test_search_is_adam_with_a_cosine(problem):
    """Against torch's own."""
    target, *parts = problem
    start = positions(target, 2)
    rows = torch.arange(12).expand(2, 12)
    steps = 60
    mask = torch.ones_like(start[0])
    mask[3] = 0.0
    modes = climb(
        target, start, steps=steps, learning_rate=0.05, batch_size=None, seed=0, mask=mask
    )
    other = start.clone().requires_grad_()
    adam = torch.optim.Adam([other], lr=0.05)
    for k in range(steps):
        adam.param_groups[0]["lr"] = 0.05 * 0.5 * (1 + math.cos(math.pi * k / steps))
        other.grad = -mask * batch_gradient(target, rows)(other.detach()).total
        adam.step()
    np.testing.assert_allclose(modes, other.detach(), atol=1e-9)
    assert (modes[:, 3] == start[:, 3]).all()
    before, after = (log_posterior(target, *parts, at) for at in (start, modes))
    assert bool((after > before + 5).all())
