"""The cost of a step by mini-batches, and how SGHMC corrects for batch noise."""

import numpy as np
import pytest
import torch

from bandgap.inference.network.pcp_scales import condensed
from bandgap.inference.network.whitened_network import whiten
from bandgap.research.stochastic_gradient.gradients import control_variate
from bandgap.research.stochastic_gradient.network_target import network_target
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import CONFIGS
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from tests.unit.inference.network.problems import CPU, prior_of, raw


def target_of(n, *, few_for_all=False):
    """With `few_for_all` the prior is by few weighted rows, as in a transfer."""
    theta_hat, x, y = raw(n, 5, hidden=(4, 3))
    net = whiten(theta_hat, x, y, device=CPU, dtype=torch.float32)
    prior = prior_of(theta_hat, x)
    return network_target(net, condensed(prior) if few_for_all else prior)


class Counted:
    """A target that records the number of rows of every gradient."""

    def __init__(self, target):
        self.target = target
        self.row_counts = []

    @property
    def n_rows(self):
        return self.target.n_rows

    def prior_gradient(self, position):
        return self.target.prior_gradient(position)

    def row_gradient(self, position, rows):
        self.row_counts.append(rows.shape[1])
        return self.target.row_gradient(position, rows)


def begin(target, chains=2):
    state = target.prior.start(chains, log_sd=0.0, generator=torch.Generator().manual_seed(0))
    return target.position([torch.zeros(chains, *shape) for shape in target.shapes], state)


@pytest.mark.parametrize("name", ["sghmc", "sgld", "psgld", "msgld", "asgld"])
def test_a_step_at_100000_rows_evaluates_one_batch(name):
    """With a control variate one more, at its centre."""
    target = target_of(100_000)
    start = begin(target)
    run = RunConfig(3, 5, 5, 64, longest_move=1e9)
    counted = Counted(target)
    sample(counted, CONFIGS[name](1e-12), start, config=run, seed=0)
    assert counted.row_counts == [64] * 8
    counted = Counted(target)
    centre = control_variate(target, start[0])
    sample(counted, CONFIGS[name](1e-12), start, config=run, seed=0, extras=Extras(control=centre))
    assert counted.row_counts == [64] * 16


def test_a_step_that_collects_a_pair_evaluates_two_batches_and_one_afterwards():
    counted = Counted(target_of(100_000))
    run = RunConfig(3, 5, 5, 64, longest_move=1e9)
    sample(counted, CONFIGS["hamcmc_sa"](1e-12), begin(counted.target), config=run, seed=0)
    assert counted.row_counts == [64] * (3 * 2 + 5)


@pytest.mark.parametrize("walkers, gradients", [(2, 3), (3, 3), (4, 4)])
def test_a_step_of_walkers_evaluates_the_one_that_moves_and_both_of_the_newest_pair(
    walkers, gradients
):
    """On one batch; from four walkers on, the far end of a pair is none of these."""
    counted = Counted(target_of(100_000))
    run = RunConfig(3, 5, 5, 64, longest_move=1e9)
    start = begin(counted.target, chains=2 * walkers).reshape(2, walkers, -1)
    sample(counted, CONFIGS["hamcmc"](1e-12, walkers=walkers), start, config=run, seed=0)
    assert counted.row_counts == [64] * (8 * gradients)


def allocated(n, *, steps):
    """Bytes of tensors that a run of so many steps of batches of 64 rows allocates."""
    target = target_of(n)
    run = RunConfig(0, steps, steps, 64, longest_move=1e9)

    def go():
        sample(target, SghmcConfig(1e-12), begin(target), config=run, seed=0)

    go()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as is_told:
        go()
    return sum(max(0, event.self_cpu_memory_usage) for event in is_told.key_averages())


def test_tensors_of_a_step_do_not_grow_with_the_rows():
    per_step = [(allocated(n, steps=7) - allocated(n, steps=2)) / 5 for n in (100_000, 2_000)]
    assert 0 < per_step[0] == per_step[1]


@pytest.mark.statistical
def test_sghmc_corrects_for_known_batch_noise():
    """On N(mean, 1) with 400 rows of different slopes, batches of 20.

    Without correction the variance is 1 + h V / 2.
    """
    rng = np.random.default_rng(0)
    numbers = torch.from_numpy(8.0 * rng.normal(size=400))

    class Mean:
        n_rows = 400

        def prior_gradient(self, position):
            return torch.zeros_like(position)

        def row_gradient(self, position, rows):
            return (numbers[rows].mean(1, keepdim=True) - position) * rows.shape[1] / 400

    def variance(is_told):
        run = RunConfig(200, 1500, 10, 20)
        extras = Extras(variance=None if is_told is None else torch.tensor([is_told]))
        draws, _ = sample(
            Mean(),
            SghmcConfig(0.02, friction=0.2),
            torch.zeros(200, 1).double(),
            config=run,
            seed=0,
            extras=extras,
        )
        return float(draws.position.var())

    noise = float(numbers.var()) / 20 * (1 - 20 / 400)  # of the mean of a batch, the gradient's own
    bare = variance(None)
    corrected = variance(noise)
    h = 0.02 / 0.2
    assert 0.5 * h * noise > 0.12
    assert bare == pytest.approx(1.005 + 0.5 * h * noise, abs=0.03)
    assert corrected == pytest.approx(1.005, abs=0.03)
