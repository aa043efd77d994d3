"""Slice sampling keeps the conditional density of the scales of each chain.

The references are a fine grid along one direction, and prior draws weighted with the likelihood.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from bandgap.inference.network.joint_density import LARGEST_LOG, log_density, log_force
from bandgap.inference.network.scale_moves import step_scales
from bandgap.inference.network.whitened_network import whiten
from tests.unit.inference.network.problems import CPU, draw_z, prior_of, raw, state_of

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
CHAINS = 400


@pytest.fixture(scope="module")
def problem():
    """Return a network of three hidden units with five rows, its prior, and fixed z.

    Chains with common labels move one after the other on a CPU. `together` gives each separate
    labels, so that they move as a batch.
    """
    theta_hat, x, y = raw(5, 3, hidden=(3,))
    net = whiten(theta_hat, x, y + 0.6, device=CPU, dtype=torch.float64)
    z = draw_z(net, 1, seed=4)
    return net, prior_of(theta_hat, x), [q.expand(CHAINS, *q.shape[1:]) for q in z]


both_ways = pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])


def run(problem, state, directions, *, n, seed=0, together=False):
    net, prior, z = problem
    if together:
        net = replace(net, y=net.y.expand(len(state), -1))
    generator = torch.Generator().manual_seed(seed)
    z = [q[: state.shape[0]] for q in z]
    for _ in range(n):
        state = step_scales(net, z, state, prior=prior, directions=directions, generator=generator)
    return state


@both_ways
@pytest.mark.parametrize("width", [0.5, 4.0, pytest.param(40.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "direction",
    [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, -0.6, 0.8)],
    ids=["log sigma", "a_1", "all"],
)
def test_moves_along_one_direction_sample_its_density(problem, direction, width, together):
    """Chains start at exact draws from a grid and still follow it after three moves."""
    net, prior, z = problem
    centre = state_of([-1.0, -0.5, -0.5, -0.7])[0]
    line = torch.tensor(direction).double()
    at = torch.linspace(-25.0, 25.0, 4001).double()
    log_p = log_density(net, [q[:1] for q in z], centre + at[:, None] * line, prior)
    below = torch.cumulative_trapezoid(torch.exp(log_p - log_p.max()), at)
    cdf = torch.cat([torch.zeros(1).double(), below / below[-1]]).numpy()
    rng = np.random.default_rng(0)
    start = torch.from_numpy(np.interp(rng.uniform(size=CHAINS), cdf, at.numpy()))
    state = run(problem, centre + start[:, None] * line, width * line[None], n=3, together=together)
    position = (state - centre) @ line / (line @ line)
    torch.testing.assert_close(centre + position[:, None] * line, state)
    assert float((position != start).double().mean()) > 0.99
    ranks = np.interp(position.numpy(), at.numpy(), cdf)
    assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM / 18


@pytest.mark.statistical
@both_ways
def test_moves_in_all_directions_sample_the_joint_density(problem, together):
    """The reference are 100,000 prior draws weighted with the likelihood."""
    net, prior, z = problem
    proposals = prior.draw(100_000, generator=torch.Generator().manual_seed(1))
    log_w = log_density(net, [q[:1] for q in z], proposals, prior) - prior.log_density(proposals)
    weights = torch.softmax(log_w, 0)
    assert float(1 / (weights**2).sum()) > 3000  # effective draws of the reference
    generator = torch.Generator().manual_seed(2)
    start = proposals[torch.multinomial(weights, CHAINS, replacement=True, generator=generator)]
    directions = torch.tensor([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.3, -1.0, 2.0]])
    state = start
    rows = []
    for i in range(40):
        state = run(problem, state, directions.double(), n=1, seed=i, together=together)
        rows.append(summaries(state))
    by_chain = torch.stack(rows).mean(0)
    reference = summaries(proposals)
    expected = weights @ reference
    variance = (weights[:, None] ** 2 * (reference - expected) ** 2).sum(0) + by_chain.var(
        0
    ) / CHAINS
    score = (by_chain.mean(0) - expected) / variance.sqrt()
    assert float(score.abs().max()) < stats.norm.isf(FALSE_ALARM / 4 / len(score))


def summaries(state):
    parts = state[:, 1:]
    values = torch.cat(
        [parts.logsumexp(1, keepdim=True), state[:, :1], torch.softmax(parts, -1)[:, :1]], 1
    )
    return torch.cat([values, values**2, values[:, :1] * values[:, 1:]], 1)


def test_density_is_that_of_the_joint_paths(problem):
    net, prior, z = problem
    state = prior.draw(CHAINS, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(
        log_density(net, z, state, prior), log_force(net, z, state, prior).value
    )


@pytest.mark.parametrize(
    "row",
    [
        [2 * LARGEST_LOG, 0.0, 0.0, 0.0],
        [0.0, -2 * LARGEST_LOG, 0.0, 0.0],
        [55.0, 0.0, 0.0, 0.0],
        [math.inf, 0, 0, 0],
    ],
    ids=["log t too large", "sigma too small", "signal too large", "infinite"],
)
def test_state_out_of_range_has_no_density_and_does_not_change_other_chains(problem, row):
    net, prior, z = problem
    valid = [-1.0, -0.5, 0.0, 0.1]
    value = log_density(net, [q[:2] for q in z], state_of(valid, row), prior)
    alone = log_density(net, [q[:1] for q in z], state_of(valid), prior)
    assert float(value[1]) == -math.inf
    torch.testing.assert_close(value[:1], alone)
