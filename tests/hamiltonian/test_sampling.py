"""Runs of both samplers: they repeat, report, end when cancelled, and refuse bad settings."""

import pytest
import torch

from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import Cancelled, ConfigError, InputError
from tests.hamiltonian.chain_loop import SamplingConfig
from tests.hamiltonian.densities import assert_moments, banana, regression, start_of
from tests.hamiltonian.sampling import sample
from tests.hamiltonian.windows import AdaptationConfig

DIAGONAL = AdaptationConfig(mass="diagonal")
CONFIGS = {
    "hmc": SamplingConfig("hmc", length=10, warmup=100, draws=200),
    "nuts": SamplingConfig("nuts", length=5, warmup=60, draws=60, adaptation=DIAGONAL),
}
SHORT = {
    "hmc": SamplingConfig("hmc", length=3, warmup=5, draws=5),
    "nuts": SamplingConfig("nuts", length=4, warmup=30, draws=5, adaptation=DIAGONAL),
}
both_samplers = pytest.mark.parametrize("sampler", ["hmc", "nuts"])


@both_samplers
def test_conjugate_linear_regression_has_its_posterior(sampler):
    density, mean, covariance = regression()
    draws, info = sample(density, start_of(100, 2), config=CONFIGS[sampler], seed=1)
    assert_moments(draws, mean, covariance)
    assert 0.75 < float(info.accept.mean()) < 0.95


@both_samplers
def test_same_seed_repeats_and_keeps_the_global_random_state(sampler):
    before = torch.get_rng_state()
    first, second = (
        sample(banana, start_of(3, 3), config=SHORT[sampler], seed=8)[0] for _ in range(2)
    )
    other, _ = sample(banana, start_of(3, 3), config=SHORT[sampler], seed=9)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@both_samplers
def test_start_is_not_changed(sampler):
    start = start_of(3, 3)
    copy = start.clone()
    sample(banana, start, config=SHORT[sampler], seed=0)
    assert torch.equal(start, copy) and not start.requires_grad


def test_progress_counts_iterations_by_phase():
    updates = []
    config = SamplingConfig("hmc", length=3, warmup=2, draws=3)
    sample(banana, start_of(3, 3), config=config, seed=0, progress=updates.append)
    assert [(update.phase, update.done, update.total) for update in updates] == [
        ("warm-up", 1, 5),
        ("warm-up", 2, 5),
        ("sampling", 3, 5),
        ("sampling", 4, 5),
        ("sampling", 5, 5),
    ]
    assert all(0 <= update.values["acceptance"] <= 1 for update in updates)


@both_samplers
def test_cancelling_ends_the_run(sampler):
    def progress(update):
        if update.done == 3:
            raise Cancelled("stop")

    with pytest.raises(Cancelled, match="stop"):
        sample(banana, start_of(3, 3), config=CONFIGS[sampler], seed=0, progress=progress)


@both_samplers
@pytest.mark.parametrize(
    "density, value",
    [
        (lambda q: torch.log(q.clamp(min=0.0)).sum(-1), "-inf"),
        (lambda q: torch.log(q).sum(-1) - q.sum(-1), "nan"),
    ],
    ids=["zero density", "not a number"],
)
def test_start_without_density_is_refused(sampler, density, value):
    start = start_of(3, 2).abs()
    start[2, 1] = -1.0
    message = (
        f"{sampler}: chain 2 starts where the log density is {value} or its gradient is not "
        "finite. Start every chain at a"
    )
    with pytest.raises(InputError, match=message):
        sample(density, start, config=CONFIGS[sampler], seed=0)


@both_samplers
def test_config_survives_plain_values(sampler):
    config = CONFIGS[sampler]
    assert from_dict(SamplingConfig, to_dict(config)) == config


@both_samplers
@pytest.mark.parametrize(
    "setting",
    [{"warmup": 0}, {"draws": 0}, {"length": 0}, {"target_accept": 1.0}, {"start_step": 0.0}],
    ids=str,
)
def test_config_refuses_an_impossible_run(sampler, setting):
    name, value = next(iter(setting.items()))
    message = rf"{sampler}: .*{name}={value}.*Accepted: sampler hmc or nuts, at least one warm-up"
    with pytest.raises(ConfigError, match=message):
        SamplingConfig(sampler, **({"length": 5} | setting))


def test_config_refuses_an_unknown_sampler():
    with pytest.raises(ConfigError, match="gibbs: .*Accepted: sampler hmc or nuts"):
        SamplingConfig("gibbs", length=5)
