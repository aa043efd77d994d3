"""Hamiltonian Monte Carlo has known moments, flags divergences and adapts each chain's step."""

import pytest
import torch

from tests.hamiltonian.chain_loop import SamplingConfig
from tests.hamiltonian.densities import assert_moments, funnel, normal, standard_normal, start_of
from tests.hamiltonian.leapfrog import Phase, evaluate, leapfrog_step
from tests.hamiltonian.sampling import sample
from tests.hamiltonian.windows import AdaptationConfig

CONFIG = SamplingConfig("hmc", length=10, warmup=100, draws=200)


def test_standard_normal_has_its_moments():
    draws, info = sample(standard_normal, start_of(100, 3), config=CONFIG, seed=0)
    assert draws.shape == (100, 200, 3)
    assert_moments(draws, torch.zeros(3).double(), torch.eye(3).double())
    assert not bool(info.divergent.any())
    # the average of a noisy step is smaller than the step with an acceptance of 0.8
    assert 0.75 < float(info.accept.mean()) < 0.95


@pytest.mark.statistical
def test_correlated_normal_has_its_moments():
    mean = torch.tensor([1.0, -2.0, 0.5]).double()
    root = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 1.0, 2.0]]).double()
    covariance = root @ root.T
    draws, _ = sample(normal(mean, covariance), start_of(100, 3), config=CONFIG, seed=1)
    assert_moments(draws, mean, covariance)


@pytest.mark.statistical
def test_diagonal_mass_follows_widths_from_1_to_1000_in_every_chain():
    """With unit mass, 12 steps would move the widest direction by a hundredth of its width."""
    sds = torch.tensor([1.0, 10.0, 100.0, 1000.0]).double()
    adaptation = AdaptationConfig(mass="diagonal")
    config = SamplingConfig("hmc", length=12, warmup=300, draws=100, adaptation=adaptation)
    draws, info = sample(
        lambda q: standard_normal(q / sds), 0.5 * start_of(60, 4) * sds, config=config, seed=7
    )
    assert_moments(draws / sds, torch.zeros(4).double(), torch.eye(4).double())
    ratio = torch.sqrt(info.inverse_mass) / sds
    assert float(ratio.log().mean(0).abs().max()) < 0.2  # 60 chains, 200 draws in the last window
    assert not torch.equal(ratio[0], ratio[1])
    assert 0.7 < float(info.accept.mean()) < 0.95


@pytest.mark.statistical
def test_funnel_gives_divergences():
    """Its neck is too narrow for the steps that suit its mouth."""
    config = SamplingConfig("hmc", length=10, warmup=100, draws=300)
    _, info = sample(funnel, start_of(50, 10), config=config, seed=4)
    assert bool(info.divergent.any())


@pytest.mark.parametrize(
    "density, dimension", [(standard_normal, 3), (funnel, 10)], ids=["normal", "funnel"]
)
@pytest.mark.parametrize(
    "start_step, step, share", [(7e-6, 1e-4, 0.0), (429.0, 1000.0, 1.0)], ids=["tiny", "huge"]
)
def test_tiny_step_never_diverges_and_huge_step_always_does(
    density, dimension, start_step, step, share
):
    """After one update the step is 10 exp(20 / 11 (a - 0.8)) times the first, a the acceptance.

    This is 14.4 times for a = 1 and 2.3 times for a = 0.
    """
    config = SamplingConfig("hmc", length=10, warmup=1, draws=5, start_step=start_step)
    draws, info = sample(density, start_of(20, dimension), config=config, seed=5)
    torch.testing.assert_close(
        info.step, torch.full((20,), step, dtype=torch.float64), rtol=0.02, atol=0
    )
    assert float(info.divergent.double().mean()) == share
    if share:
        assert torch.equal(draws, start_of(20, dimension).unsqueeze(1).expand(20, 5, dimension))
        assert float(info.accept.max()) == 0
    else:
        assert float(info.accept.min()) > 0.999


def leapfrog(log_density, q, p, *, step, n_steps):
    """Follow q and p (chain, dimension) of unit mass; return both and the log density there."""
    phase = Phase(evaluate(log_density, q), p)
    for _ in range(n_steps):
        phase = leapfrog_step(log_density, phase, step=step, inverse_mass=torch.ones_like(q))
    return phase.at.q, phase.p, phase.at.value


def test_leapfrog_is_reversible_and_each_chain_has_its_own_step():
    start = start_of(2, 3)
    momentum = start_of(2, 3, seed=5)
    step = torch.tensor([0.1, 0.3]).double()
    q, p, value = leapfrog(standard_normal, start, momentum, step=step, n_steps=9)
    back, turned, _ = leapfrog(standard_normal, q, -p, step=step, n_steps=9)
    torch.testing.assert_close(back, start)
    torch.testing.assert_close(turned, -momentum)
    torch.testing.assert_close(value, standard_normal(q))
    alone, *_ = leapfrog(standard_normal, start[1:], momentum[1:], step=step[1:], n_steps=9)
    torch.testing.assert_close(q[1:], alone)


def test_step_sizes_adapt_to_each_chain():
    """The density of chain 0 is ten times narrower than that of chain 1, and so is its step."""
    width = torch.tensor([[0.1], [1.0]]).double()
    _, info = sample(
        lambda q: standard_normal(q / width), start_of(2, 4) * width, config=CONFIG, seed=6
    )
    assert 5 < float(info.step[1] / info.step[0]) < 20
