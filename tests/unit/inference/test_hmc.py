"""Plain Hamiltonian Monte Carlo finds known moments, flags what it cannot follow, and repeats with its seed.

Moments are judged by chains: many independent chains from different starts, the standard error of a mean being that of
the chains' means.
"""

import math

import pytest
import torch
from scipy import stats

from bandgap.errors import Cancelled, ConfigError
from bandgap.inference.hmc import HmcConfig, leapfrog, sample

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed
CONFIG = HmcConfig(warmup=100, draws=200, n_steps=10)


def start_of(chains, dimension, *, seed=1):
    return 2.0 * torch.randn(chains, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def standard_normal(q):
    return -0.5 * (q**2).sum(-1)


def normal(mean, covariance):
    precision = torch.linalg.inv(covariance)
    return lambda q: -0.5 * ((q - mean) @ precision * (q - mean)).sum(-1)


def assert_mean(values, expected):
    """Values (chain, draw, quantity): the mean over chains is the expected one, by a t-test of each quantity."""
    by_chain = values.mean(1)
    chains, quantities = by_chain.shape
    score = (by_chain.mean(0) - expected) / (by_chain.std(0) / math.sqrt(chains))
    assert float(score.abs().max()) < stats.t.isf(FALSE_ALARM / 2 / quantities, df=chains - 1)


def assert_moments(draws, mean, covariance):
    centred = draws - mean
    products = (centred.unsqueeze(-1) * centred.unsqueeze(-2)).flatten(2)
    assert_mean(torch.cat([centred, products], -1), torch.cat([torch.zeros_like(mean), covariance.flatten()]))


def test_standard_normal_has_its_moments():
    draws, info = sample(standard_normal, start_of(100, 3), config=CONFIG, seed=0)
    assert draws.shape == (100, 200, 3)
    assert_moments(draws, torch.zeros(3).double(), torch.eye(3).double())
    assert not bool(info.divergent.any())
    assert 0.75 < float(info.accept.mean()) < 0.95  # the average of a noisy step is on the careful side of 0.8


def test_correlated_normal_has_its_moments():
    mean = torch.tensor([1.0, -2.0, 0.5]).double()
    root = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 1.0, 2.0]]).double()
    covariance = root @ root.T
    draws, _ = sample(normal(mean, covariance), start_of(100, 3), config=CONFIG, seed=1)
    assert_moments(draws, mean, covariance)


def test_conjugate_linear_regression_has_its_posterior():
    """Weights ~ N(0, I), noise sd 0.5: the posterior is normal and known."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(15, 2, generator=generator).double()
    y = x @ torch.tensor([1.0, -0.5]).double() + 0.5 * torch.randn(15, generator=generator).double()
    covariance = torch.linalg.inv(torch.eye(2) + x.T @ x / 0.25)

    def density(q):
        return -0.5 * (q**2).sum(-1) - 0.5 * ((y - q @ x.T) ** 2).sum(-1) / 0.25

    draws, _ = sample(density, start_of(100, 2), config=CONFIG, seed=3)
    assert_moments(draws, covariance @ x.T @ y / 0.25, covariance)


def funnel(q):
    """Neal's: log scale v ~ N(0, 9), nine x ~ N(0, exp(v))."""
    v, x = q[:, 0], q[:, 1:]
    return -(v**2) / 18 - 4.5 * v - 0.5 * (x**2).sum(-1) * torch.exp(-v)


def test_funnel_gives_divergences():
    """Its neck is narrower than any step that suits its mouth."""
    _, info = sample(funnel, start_of(50, 10), config=HmcConfig(warmup=100, draws=300, n_steps=10), seed=4)
    assert bool(info.divergent.any())


@pytest.mark.parametrize("density, dimension", [(standard_normal, 3), (funnel, 10)], ids=["normal", "funnel"])
@pytest.mark.parametrize("start_step, step, share", [(7e-6, 1e-4, 0.0), (429.0, 1000.0, 1.0)], ids=["tiny", "huge"])
def test_tiny_step_never_diverges_and_huge_step_always_does(density, dimension, start_step, step, share):
    """After one update the step is 10 exp(20 / 11 (a - 0.8)) times the first, a the acceptance: 14.4 or 2.3 times."""
    config = HmcConfig(warmup=1, draws=5, n_steps=10, start_step=start_step)
    draws, info = sample(density, start_of(20, dimension), config=config, seed=5)
    torch.testing.assert_close(info.step, torch.full((20,), step, dtype=torch.float64), rtol=0.02, atol=0)
    assert float(info.divergent.double().mean()) == share
    if share:
        assert torch.equal(draws, start_of(20, dimension).unsqueeze(1).expand(20, 5, dimension))
        assert float(info.accept.max()) == 0
    else:
        assert float(info.accept.min()) > 0.999


def test_leapfrog_is_reversible_and_each_chain_has_its_own_step():
    start, momentum = start_of(2, 3), start_of(2, 3, seed=5)
    step = torch.tensor([0.1, 0.3]).double()
    q, p, value = leapfrog(standard_normal, start, momentum, step=step, n_steps=9)
    back, turned, _ = leapfrog(standard_normal, q, -p, step=step, n_steps=9)
    torch.testing.assert_close(back, start)
    torch.testing.assert_close(turned, -momentum)
    torch.testing.assert_close(value, standard_normal(q))
    alone, *_ = leapfrog(standard_normal, start[1:], momentum[1:], step=step[1:], n_steps=9)
    torch.testing.assert_close(q[1:], alone)


def test_step_sizes_adapt_to_each_chain():
    """Chain 0 sees a density ten times narrower than chain 1: its step comes out about ten times smaller."""
    width = torch.tensor([[0.1], [1.0]]).double()
    _, info = sample(lambda q: standard_normal(q / width), start_of(2, 4) * width, config=CONFIG, seed=6)
    assert 5 < float(info.step[1] / info.step[0]) < 20


def test_same_seed_repeats_and_leaves_the_global_random_state_alone():
    short = HmcConfig(warmup=5, draws=5, n_steps=3)
    before = torch.get_rng_state()
    first, _ = sample(standard_normal, start_of(3, 2), config=short, seed=8)
    second, _ = sample(standard_normal, start_of(3, 2), config=short, seed=8)
    other, _ = sample(standard_normal, start_of(3, 2), config=short, seed=9)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def test_start_is_not_changed():
    start = start_of(3, 2)
    copy = start.clone()
    sample(standard_normal, start, config=HmcConfig(warmup=2, draws=2, n_steps=3), seed=0)
    assert torch.equal(start, copy) and not start.requires_grad


def test_progress_counts_iterations_by_phase():
    updates = []
    sample(
        standard_normal, start_of(3, 2), config=HmcConfig(warmup=2, draws=3, n_steps=3), seed=0, progress=updates.append
    )
    assert [(u.phase, u.done, u.total) for u in updates] == [
        ("warm-up", 1, 5), ("warm-up", 2, 5), ("sampling", 3, 5), ("sampling", 4, 5), ("sampling", 5, 5)
    ]  # fmt: skip
    assert all(0 <= u.values["acceptance"] <= 1 for u in updates)


def test_cancelling_ends_the_run():
    def progress(update):
        if update.done == 3:
            raise Cancelled("stop")

    with pytest.raises(Cancelled, match="stop"):
        sample(standard_normal, start_of(3, 2), config=CONFIG, seed=0, progress=progress)


@pytest.mark.parametrize(
    "setting", [{"warmup": 0}, {"draws": 0}, {"n_steps": 0}, {"target_accept": 1.0}, {"start_step": 0.0}], ids=str
)
def test_config_refuses_a_run_that_cannot_be(setting):
    name, value = next(iter(setting.items()))
    with pytest.raises(
        ConfigError, match=rf"hmc: .*{name}={value}.*Accepted: at least one warm-up iteration, draw and"
    ):
        HmcConfig(**setting)
