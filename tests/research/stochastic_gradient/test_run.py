"""Runs: parallel chains, divergence, draws, checkpoints, refused settings; pruning with rebirth."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import Cancelled
from bandgap.inference.checkpoints import Checkpoint, facts_of
from bandgap.research.stochastic_gradient.gradients import batch_gradient
from bandgap.research.stochastic_gradient.halving import sample_and_halve
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.pruning import Pruning, zero_smallest
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import CONFIGS, algorithm_of
from bandgap.research.stochastic_gradient.schedules import Cyclical, Stepwise
from tests.research.stochastic_gradient.linear_laws import WholeTarget
from tests.research.stochastic_gradient.test_gradients import logistic
from tests.unit.inference.network.test_checkpoints import Killed, ended_after

CHAINS = 4
DIM = 3
SAMPLERS = {name: config(0.02) for name, config in CONFIGS.items()}
SAMPLERS["hamcmc_sa"] = dataclasses.replace(SAMPLERS["hamcmc_sa"], every=4, snapshots=3)
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
RUN = RunConfig(30, 40, 5, batch_size=6)


def start_of(sampler, chains=CHAINS, dim=DIM):
    shape = (chains, sampler.walkers, dim) if sampler.walkers > 1 else (chains, dim)
    return torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def run(sampler, *, config=RUN, seed=3, **more):
    return sample(logistic(20), sampler, start_of(sampler), config=config, seed=seed, **more)


@every_sampler
def test_parallel_chains_equal_single_chains_with_the_same_normal_draws(sampler):
    """All but HAMCMC-SA, whose chains share a metric.

    There the drift of each follows from the shared one.
    """
    if type(sampler) is CONFIGS["hamcmc_sa"]:
        sampler = dataclasses.replace(sampler, every=10**9)
    target = logistic(20)
    algorithm = algorithm_of(sampler)
    start = start_of(sampler)
    rng = np.random.default_rng(0)
    noise = [torch.from_numpy(rng.normal(size=(CHAINS, DIM))) for _ in range(40)]
    rows = [torch.from_numpy(rng.integers(20, size=(CHAINS, 6))) for _ in range(20)]

    def final(chains):
        state = algorithm.init(sampler, start[chains])
        normals = iter(noise)
        for k in range(20):
            gradient = batch_gradient(target, rows[k][chains])
            state, _ = algorithm.step(
                sampler, state, gradient, lambda: next(normals)[chains], h=0.02, adapt=k < 10
            )
        return algorithm.position(state)

    together = final(slice(None))
    alone = torch.cat([final(slice(i, i + 1)) for i in range(CHAINS)])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    assert not np.allclose(together[0], together[1])


@every_sampler
def test_run_gives_draws_and_figures_of_the_configured_length(sampler):
    draws, info = run(sampler, extras=Extras(lambda x: x[:, :2]))
    assert draws.position.shape == (CHAINS, 8, DIM) and draws.recorded.shape == (CHAINS, 40, 2)
    assert (draws.recorded[:, 4::5] == draws.position[:, :, :2]).all()
    assert draws.steps.tolist() == [0.02] * 8
    assert info.chains == (0, 1, 2, 3) and info.divergences == 0 and info.iterations == 70
    assert 0 < info.stretch[0] <= info.stretch[1] and info.gradient_norm > 0 and info.seconds > 0


def test_chain_at_an_impossible_position_has_diverged():
    full, _ = run(SAMPLERS["sgld"], extras=Extras(lambda x: x))
    farthest = full.recorded[..., 0].amax(1)
    most = float(farthest.max()) - 1e-9
    draws, info = run(
        SAMPLERS["sgld"], extras=Extras(lambda x: x, possible=lambda x: x[:, 0] < most)
    )
    running = [chain for chain in range(CHAINS) if float(farthest[chain]) < most]
    assert info.divergences == 1 and list(info.chains) == running
    assert (draws.recorded == full.recorded[running]).all()
    assert info.warnings[-1].kind == "diverged"


@every_sampler
@pytest.mark.parametrize("every", [13, 31])
def test_killed_run_resumes_from_its_file_bit_for_bit(tmp_path, monkeypatch, sampler, every):
    monkeypatch.setattr("bandgap.research.stochastic_gradient.run.REPORT_EVERY_S", 0.0)
    extras = Extras(lambda x: x[:, :1])
    uninterrupted, figures = run(sampler, extras=extras)
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=every)
    with pytest.raises(Killed):
        run(sampler, extras=extras, checkpoint=checkpoint, progress=ended_after(every, Killed))
    updates = []
    again, after = run(sampler, extras=extras, checkpoint=checkpoint, progress=updates.append)
    assert updates[0].done == every + 1 and updates[-1].done == updates[-1].total == 70
    assert (again.position == uninterrupted.position).all()
    assert (again.recorded == uninterrupted.recorded).all()
    assert dataclasses.replace(after, seconds=0) == dataclasses.replace(figures, seconds=0)


def test_cancelled_run_resumes_and_a_finished_run_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("bandgap.research.stochastic_gradient.run.REPORT_EVERY_S", 0.0)
    sampler = SAMPLERS["sghmc"]
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=1000)
    with pytest.raises(Cancelled):
        run(sampler, checkpoint=checkpoint, progress=ended_after(22, Cancelled))
    updates = []
    first, _ = run(sampler, checkpoint=checkpoint, progress=updates.append)
    assert updates[0].done == 23
    read, _ = run(sampler, checkpoint=checkpoint, progress=updates.append)
    assert updates[-1].done == 70 and (read.position == first.position).all()


def with_one_chain_on_the_wall(sampler, wall):
    start = start_of(sampler)
    start[2] = 60.0
    target = WholeTarget(lambda x: torch.where(x.abs() > 50, wall, -x))
    return sample(target, sampler, start, config=RunConfig(20, 20, 5, longest_move=1e3), seed=0)


@every_sampler
def test_chain_that_diverges_ends_with_a_warning_and_the_others_continue(sampler):
    draws, info = with_one_chain_on_the_wall(sampler, torch.nan)
    assert info.chains == (0, 1, 3) and info.divergences == 1
    assert draws.position.shape == (3, 4, DIM) and bool(draws.position.isfinite().all())
    assert [w.kind for w in info.warnings] == [*(w.kind for w in sampler.warnings()), "diverged"]
    assert "1 of 4 chains diverged and were left out: 3 in iteration" in info.warnings[-1].text


def test_chain_with_a_finite_drift_that_is_too_long_has_diverged():
    assert with_one_chain_on_the_wall(SAMPLERS["sgld"], 1e6)[1].chains == (0, 1, 3)
    assert with_one_chain_on_the_wall(SAMPLERS["sgld"], -1e3)[1].chains == (0, 1, 2, 3)


def test_run_with_half_the_step_has_twice_the_iterations_schedule_and_pruning(tmp_path):
    """The settings are read from the checkpoints."""
    files = tuple(Checkpoint(tmp_path / f"{name}.safetensors") for name in ("full", "half"))
    extras = Extras(lambda x: x, pruning=Pruning(((0, 3),), 5))
    for schedule, longer in ((Cyclical(10), Cyclical(20)), (Stepwise(0.5, 30), Stepwise(0.5, 60))):
        config = dataclasses.replace(RUN, schedule=schedule)
        sample_and_halve(
            logistic(20),
            SAMPLERS["sgld"],
            start_of(SAMPLERS["sgld"]),
            config=config,
            seed=0,
            extras=extras,
            checkpoints=files,
        )
        full, half = (facts_of(file.path) for file in files)
        assert (full["run"], full["pruning"]) == (repr(config), repr(extras.pruning))
        assert half["run"] == repr(
            dataclasses.replace(config, warmup=60, draws=80, schedule=longer)
        )
        assert half["pruning"] == repr(Pruning(((0, 3),), 10))
        for file in files:
            file.path.unlink()


def test_warnings_of_the_run_with_half_the_step_are_marked():
    """Chain 3 diverges in both runs; the warning of the settings appears once."""
    sampler = SAMPLERS["asgld"]
    start = start_of(SAMPLERS["asgld"])
    start[2] = 60.0
    target = WholeTarget(lambda x: torch.where(x.abs() > 50, torch.nan, -x))
    extras = Extras(lambda x: x)
    _, info = sample_and_halve(
        target, sampler, start, config=RunConfig(20, 20, 5), seed=0, extras=extras
    )
    kinds = [warning.kind for warning in info.warnings]
    assert kinds[:3] == ["biased", "diverged", "diverged"] and kinds.count("biased") == 1
    assert info.warnings[1].text.startswith("1 of 4 chains diverged")
    assert info.warnings[2].text.startswith("With half the step: 1 of 4 chains diverged")


@pytest.mark.parametrize("share", [0.0, 0.013, 0.5, 0.97])
def test_share_of_zeros_right_after_pruning_is_exact_to_one_weight(share):
    x = torch.randn(3, 250, generator=torch.Generator().manual_seed(0))
    zeros = zero_smallest(x, ((10, 110), (120, 220)), share=share) == 0
    assert (zeros[:, 10:110].sum(1) == round(100 * share)).all() and (
        zeros[:, 120:220].sum(1) == round(100 * share)
    ).all()
    assert not zeros[:, :10].any() and not zeros[:, 110:120].any() and not zeros[:, 220:].any()
    for chain in range(3):
        for matrix in (slice(10, 110), slice(120, 220)):
            size = x[chain, matrix].abs()
            is_zero = zeros[chain, matrix]
            assert share == 0 or float(size[is_zero].max()) < float(size[~is_zero].min())


def test_pruning_sets_the_smallest_to_zero_and_follows_its_rate():
    x = torch.tensor([[5.0, -1.0, 3.0, 0.5]])
    assert zero_smallest(x, ((0, 4),), share=0.5).tolist() == [[5.0, 0.0, 3.0, 0.0]]
    assert zero_smallest(x, ((0, 4, 2),), share=0.5).tolist() == [[5.0, -1.0, 0.0, 0.5]]
    pruning = Pruning(((0, 4),), every=10, share=0.7, decay=0.99, slowness=50)
    assert pruning.share_at(0) == 0
    assert pruning.share_at(100) == pytest.approx(0.7 * (1 - 0.99**2))


def test_pruned_weights_return_unless_a_mask_fixes_them():
    """Ten weights around 0 and ten around 5.

    The small ones are pruned, return, and stay only under a mask.
    """
    centre = torch.cat([torch.zeros(10), 5 * torch.ones(10)]).double()
    target = WholeTarget(lambda x: centre - x)
    pruning = Pruning(((0, 20),), every=50, share=0.5, decay=0.5, slowness=0.1)
    start = centre + 0.1 * torch.randn(
        4, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    sampler = CONFIGS["sgld"](0.01)
    at_pruning, info = sample(
        target, sampler, start, config=RunConfig(0, 100, 50), seed=0, extras=Extras(pruning=pruning)
    )
    assert (at_pruning.position[:, :, :10] == 0).all() and (
        at_pruning.position[:, :, 10:] != 0
    ).all()
    assert info.zero_share == 0.5
    between, after = sample(
        target,
        sampler,
        start,
        config=RunConfig(0, 120, 120),
        seed=0,
        extras=Extras(pruning=pruning),
    )
    assert after.zero_share == 0.0 and (between.position != 0).all()
    mask = (at_pruning.position[:, -1] != 0).double()
    masked, _ = sample(
        target,
        sampler,
        at_pruning.position[:, -1],
        config=RunConfig(300, 3000, 10),
        seed=1,
        extras=Extras(mask=mask),
    )
    assert (masked.position[:, :, :10] == 0).all()
    moved = masked.position[:, :, 10:]
    assert float(moved.mean()) == pytest.approx(5.0, abs=0.1) and float(
        moved.var()
    ) == pytest.approx(1.0, rel=0.15)
