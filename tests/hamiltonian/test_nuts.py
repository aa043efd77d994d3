"""NUTS has the trajectories of a recursive implementation and samples its density."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tests.hamiltonian import nuts, recursive_nuts
from tests.hamiltonian.chain_loop import SamplingConfig, Tuning
from tests.hamiltonian.densities import (
    FALSE_ALARM,
    assert_mean,
    assert_moments,
    banana,
    banana_draws,
    funnel,
    standard_normal,
    start_of,
)
from tests.hamiltonian.leapfrog import evaluate
from tests.hamiltonian.nuts import transition
from tests.hamiltonian.sampling import sample
from tests.hamiltonian.windows import AdaptationConfig

DIAGONAL = AdaptationConfig(mass="diagonal")
FIXED = AdaptationConfig(step="fixed")
CONFIG = SamplingConfig("nuts", length=5, warmup=60, draws=60, adaptation=DIAGONAL)


def tuning_of(step, inverse_mass, *, seed=0):
    return Tuning(step, inverse_mass, torch.Generator().manual_seed(seed), torch.Generator())


def banana_by_hand(q):
    x, y, z = q
    value = -0.5 * (x**2 + 4.0 * (y - x**2) ** 2 + 25.0 * (z - x) ** 2)
    return value, np.array(
        [-x + 8.0 * x * (y - x**2) + 25.0 * (z - x), -4.0 * (y - x**2), -25.0 * (z - x)]
    )


def random_numbers(chains, dimension, max_depth, *, seed):
    """Return the random numbers of a transition of a batch, in its order."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(chains, dimension, generator=generator, dtype=torch.float64)

    def uniform(*size):
        return torch.rand(size, generator=generator, dtype=torch.float64)

    numbers = [(uniform(chains), uniform(2**k, chains), uniform(chains)) for k in range(max_depth)]
    return noise, *zip(*numbers, strict=True)


def test_every_trajectory_is_that_of_the_recursive_implementation():
    """400 trajectories with every kind of end, for steps from far too small to diverging."""
    chains = 20
    max_depth = 6
    ends = []
    step = torch.logspace(-2.5, 0.3, chains).double()
    inverse_mass = torch.exp(0.5 * start_of(chains, 3, seed=4))
    q = banana_draws(chains, seed=5)
    for seed in range(20):
        moved, statistics = transition(
            banana,
            evaluate(banana, q),
            tuning=tuning_of(step, inverse_mass, seed=seed),
            max_depth=max_depth,
        )
        noise, directions, leaves, choices = random_numbers(chains, 3, max_depth, seed=seed)
        for i in range(chains):
            mass = inverse_mass[i].numpy()
            expected, *figures = recursive_nuts.transition(
                banana_by_hand,
                q[i].numpy(),
                momentum=noise[i].numpy() / np.sqrt(mass),
                step=float(step[i]),
                inverse_mass=mass,
                max_depth=max_depth,
                directions=[float(d[i]) for d in directions],
                leaves=[u[:, i].numpy() for u in leaves],
                choices=[float(c[i]) for c in choices],
            )
            np.testing.assert_allclose(moved.q[i].numpy(), expected, rtol=1e-7, atol=1e-8)
            names = ("energy", "accept", "divergent", "depth", "n_steps")
            np.testing.assert_allclose(
                [float(statistics[name][i]) for name in names], figures, rtol=1e-7, atol=1e-8
            )
            ends.append((figures[2], figures[3], figures[4]))
        q = moved.q
    diverged = [end for end in ends if end[0]]
    full = [end for end in ends if end[1] == max_depth]
    turned_at_a_join = [
        end for end in ends if not end[0] and end[2] == 2 ** end[1] - 1 and end[1] < max_depth
    ]
    turned_in_a_branch = [end for end in ends if not end[0] and end[2] > 2 ** end[1] - 1]
    kinds = (diverged, full, turned_at_a_join, turned_in_a_branch)
    assert min(len(kind) for kind in kinds) > 10
    assert {depth for _, depth, _ in ends} == set(range(max_depth + 1))


def test_one_transition_of_each_of_many_exact_draws_leaves_their_law():
    """The step is so coarse that weights differ, which shows wrong weights or a wrong bias."""
    start = banana_draws(20_000, seed=6)
    at = evaluate(banana, start)
    step = torch.full((20_000,), 0.18, dtype=torch.float64)
    for seed in range(3):
        at, statistics = transition(
            banana, at, tuning=tuning_of(step, torch.ones_like(start), seed=seed), max_depth=4
        )
    assert 0.6 < float(statistics["accept"].mean()) < 0.9
    assert float((at.q - start).abs().amin(1).gt(0).double().mean()) > 0.8
    x, y, z = at.q.unbind(-1)
    standard = torch.stack([x, 2.0 * (y - x**2), 5.0 * (z - x)])
    p_values = [stats.kstest(values.numpy(), stats.norm.cdf).pvalue for values in standard]
    assert min(p_values) > FALSE_ALARM / 3


def test_point_returned_has_its_own_density_and_gradient():
    at, _ = transition(
        banana,
        evaluate(banana, banana_draws(50, seed=7)),
        tuning=tuning_of(torch.full((50,), 0.2).double(), torch.ones(50, 3).double()),
        max_depth=5,
    )
    again = evaluate(banana, at.q)
    torch.testing.assert_close(at.value, again.value)
    torch.testing.assert_close(at.gradient, again.gradient)


def test_chain_does_not_depend_on_other_chains_or_on_the_leaves_per_check(monkeypatch):
    """The same batch with a second chain that overflows, and checks every 16 leaves."""
    start = banana_draws(2, seed=8)
    one = torch.ones(2, 3).double()
    step = torch.tensor([0.1, 0.1]).double()
    at, statistics = transition(
        banana, evaluate(banana, start), tuning=tuning_of(step, one), max_depth=6
    )
    monkeypatch.setattr(nuts, "LEAVES_PER_CHECK", {"cpu": 16})
    wild = torch.tensor([0.1, 1e200]).double()
    other, other_statistics = transition(
        banana, evaluate(banana, start), tuning=tuning_of(wild, one), max_depth=6
    )
    assert bool(other_statistics["divergent"][1]) and torch.equal(other.q[1], start[1])
    assert torch.equal(other.q[0], at.q[0])
    assert all(torch.equal(statistics[name][0], other_statistics[name][0]) for name in statistics)


@pytest.mark.statistical
def test_normal_of_widths_from_1_to_1000_has_its_moments():
    """With unit mass, a trajectory along the widest direction would take a thousand steps."""
    sds = torch.tensor([1.0, 10.0, 100.0, 1000.0]).double()
    adaptation = AdaptationConfig(mass="diagonal", pooled=True)
    config = SamplingConfig("nuts", length=5, warmup=60, draws=80, adaptation=adaptation)
    draws, info = sample(
        lambda q: standard_normal(q / sds), start_of(60, 4) * sds, config=config, seed=0
    )
    assert draws.shape == (60, 80, 4)
    assert_moments(draws / sds, torch.zeros(4).double(), torch.eye(4).double())
    assert not bool(info.divergent.any())
    assert float(info.depth.double().mean()) < 4
    assert float((torch.sqrt(info.inverse_mass) / sds).log().abs().max()) < math.log(2.5)


@pytest.mark.statistical
def test_hmc_and_nuts_agree():
    """Means of positions, squares and products over 40 chains each, by a t-test of every one."""
    start = banana_draws(40, seed=9)
    nuts_config = SamplingConfig("nuts", length=5, warmup=50, draws=60, adaptation=DIAGONAL)
    hmc_config = SamplingConfig("hmc", length=10, warmup=50, draws=150)
    first, _ = sample(banana, start, config=nuts_config, seed=2)
    second, _ = sample(banana, start, config=hmc_config, seed=3)

    def summaries(draws):
        return torch.cat([draws, draws**2, draws * draws.roll(1, -1)], -1).mean(1).numpy()

    p_values = stats.ttest_ind(summaries(first), summaries(second), axis=0, equal_var=False).pvalue
    assert p_values.min() > FALSE_ALARM / p_values.size


@pytest.mark.statistical
def test_funnel_diverges_at_a_coarse_step_and_less_at_a_fine_one():
    shares = []
    for step in (0.5, 0.1):
        config = SamplingConfig(
            "nuts", length=5, warmup=1, draws=40, start_step=step, adaptation=FIXED
        )
        _, info = sample(funnel, start_of(50, 10), config=config, seed=4)
        torch.testing.assert_close(info.step, torch.full((50,), step, dtype=torch.float64))
        shares.append(float(info.divergent.double().mean()))
    assert shares[0] > 0.01
    assert shares[1] < 0.5 * shares[0]


@pytest.mark.parametrize(
    "density, dimension", [(standard_normal, 3), (funnel, 10)], ids=["normal", "funnel"]
)
@pytest.mark.parametrize("step, share", [(1e-4, 0.0), (1000.0, 1.0)], ids=["tiny", "huge"])
def test_tiny_step_never_diverges_and_huge_step_always_does(density, dimension, step, share):
    config = SamplingConfig("nuts", length=5, warmup=1, draws=5, start_step=step, adaptation=FIXED)
    draws, info = sample(density, start_of(20, dimension), config=config, seed=5)
    assert float(info.divergent.double().mean()) == share
    if share:
        assert torch.equal(draws, start_of(20, dimension).unsqueeze(1).expand(20, 5, dimension))
        assert float(info.accept.max()) == 0
        assert int(info.depth.max()) == 0 and int(info.n_steps.max()) == 1
    else:
        assert float(info.accept.min()) > 0.999
        assert int(info.depth.min()) == 5 and int(info.n_steps.min()) == 31


def test_energies_are_those_of_the_states_with_their_momenta():
    """For a standard normal 2 H is chi-squared with as many degrees as q and p have entries."""
    draws, info = sample(standard_normal, start_of(40, 5), config=CONFIG, seed=6)
    kinetic = info.energy - 0.5 * (draws**2).sum(-1)
    assert float(kinetic.min()) > 0
    assert_mean(info.energy.unsqueeze(-1), torch.tensor([5.0]).double())
    assert info.ebfmi().shape == (40,) and info.ebfmi().min() > 0.5


def test_single_precision_positions_keep_energies_in_double():
    config = SamplingConfig("nuts", length=10, warmup=30, draws=5, adaptation=DIAGONAL)
    draws, info = sample(standard_normal, start_of(4, 3).float(), config=config, seed=0)
    assert draws.dtype == torch.float32
    assert {v.dtype for v in (info.accept, info.energy, info.step)} == {torch.float64}
    assert info.inverse_mass.dtype == torch.float32
