"""Plain Hamiltonian Monte Carlo finds known moments, flags what it cannot follow, and repeats with its seed."""

import pytest
import torch

from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import Cancelled, ConfigError, InputError
from tests.hamiltonian.densities import (
    assert_moments,
    funnel,
    normal,
    regression,
    standard_normal,
    start_of,
)
from tests.hamiltonian.hmc import HmcConfig, sample
from tests.hamiltonian.leapfrog import Phase, evaluate, leapfrog_step
from tests.hamiltonian.windows import AdaptationConfig

CONFIG = HmcConfig(warmup=100, draws=200, n_steps=10)


def test_standard_normal_has_its_moments():
    draws, info = sample(standard_normal, start_of(100, 3), config=CONFIG, seed=0)
    assert draws.shape == (100, 200, 3)
    assert_moments(draws, torch.zeros(3).double(), torch.eye(3).double())
    assert not bool(info.divergent.any())
    assert (
        0.75 < float(info.accept.mean()) < 0.95
    )  # the average of a noisy step is on the careful side of 0.8


def test_correlated_normal_has_its_moments():
    mean = torch.tensor([1.0, -2.0, 0.5]).double()
    root = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 1.0, 2.0]]).double()
    covariance = root @ root.T
    draws, _ = sample(normal(mean, covariance), start_of(100, 3), config=CONFIG, seed=1)
    assert_moments(draws, mean, covariance)


def test_conjugate_linear_regression_has_its_posterior():
    density, mean, covariance = regression()
    draws, _ = sample(density, start_of(100, 2), config=CONFIG, seed=3)
    assert_moments(draws, mean, covariance)


def test_diagonal_mass_follows_widths_from_1_to_1000_in_every_chain():
    """Paths of 12 steps: with unit mass the widest direction would move by a hundredth of its width."""
    sds = torch.tensor([1.0, 10.0, 100.0, 1000.0]).double()
    config = HmcConfig(warmup=300, draws=100, adaptation=AdaptationConfig(mass="diagonal"))
    draws, info = sample(
        lambda q: standard_normal(q / sds), 0.5 * start_of(60, 4) * sds, config=config, seed=7
    )
    assert_moments(draws / sds, torch.zeros(4).double(), torch.eye(4).double())
    found = torch.sqrt(info.inverse_mass) / sds
    assert float(found.log().mean(0).abs().max()) < 0.2  # 60 chains, 200 draws in the last window
    assert not torch.equal(found[0], found[1])
    assert 0.7 < float(info.accept.mean()) < 0.95


def test_funnel_gives_divergences():
    """Its neck is narrower than any step that suits its mouth."""
    _, info = sample(
        funnel, start_of(50, 10), config=HmcConfig(warmup=100, draws=300, n_steps=10), seed=4
    )
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
    """After one update the step is 10 exp(20 / 11 (a - 0.8)) times the first, a the acceptance: 14.4 or 2.3 times."""
    config = HmcConfig(warmup=1, draws=5, n_steps=10, start_step=start_step)
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
    """Follow q and p (chain, dimension) of unit mass for some steps; return both and the log density there."""
    phase = Phase(evaluate(log_density, q), p)
    for _ in range(n_steps):
        phase = leapfrog_step(log_density, phase, step=step, inverse_mass=torch.ones_like(q))
    return phase.at.q, phase.p, phase.at.value


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
    _, info = sample(
        lambda q: standard_normal(q / width), start_of(2, 4) * width, config=CONFIG, seed=6
    )
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
        standard_normal,
        start_of(3, 2),
        config=HmcConfig(warmup=2, draws=3, n_steps=3),
        seed=0,
        progress=updates.append,
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


def test_start_without_density_is_refused():
    start = start_of(3, 2).abs()
    start[2, 1] = -1.0
    found = "hmc: chain 2 starts where the log density is -inf or its gradient is not finite. Start every chain at a"
    with pytest.raises(InputError, match=found):
        sample(lambda q: torch.log(q.clamp(min=0.0)).sum(-1), start, config=CONFIG, seed=0)


def test_config_survives_plain_values():
    config = HmcConfig(draws=7, adaptation=AdaptationConfig(mass="diagonal"))
    assert from_dict(HmcConfig, to_dict(config)) == config


@pytest.mark.parametrize(
    "setting",
    [{"warmup": 0}, {"draws": 0}, {"n_steps": 0}, {"target_accept": 1.0}, {"start_step": 0.0}],
    ids=str,
)
def test_config_refuses_a_run_that_cannot_be(setting):
    name, value = next(iter(setting.items()))
    with pytest.raises(
        ConfigError,
        match=rf"hmc: .*{name}={value}.*Accepted: at least one warm-up iteration, draw and",
    ):
        HmcConfig(**setting)
