"""Runs of several chains: they repeat, do not depend on cores, store draws and can be cancelled."""

import dataclasses
import os

import joblib
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from bandgap.foundation.errors import Cancelled
from bandgap.foundation.progress import no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.chain import MAX_STEP
from bandgap.inference.network.chain_group import GroupPlace, run_group
from bandgap.inference.network.sampler import _open_board, _run_in_process, sample_network
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import whiten
from tests.unit.inference.network.problems import CPU, prior_of, raw

BRIEF = SamplerConfig(chains=4, warmup=20, draws=23, keep=12, angle=0.6)


@pytest.fixture(scope="module")
def problem():
    theta_hat, x, y = raw(7, 5)
    return whiten(theta_hat, x, y, device=CPU, dtype=torch.float32), prior_of(theta_hat, x)


def run(problem, *, config=BRIEF, seed=0, progress=no_progress):
    return sample_network(*problem, config=config, seed=seed, progress=progress)


@pytest.fixture(scope="module")
def result(problem):
    return run(problem)


def assert_same(a, b):
    (draws, info) = a
    (other, other_info) = b
    assert torch.equal(draws.state, other.state)
    assert torch.equal(draws.output, other.output)
    assert all(torch.equal(z, w) for z, w in zip(draws.z, other.z, strict=True))
    for name in ("state", "fitted", "accept", "divergent", "step", "n_steps"):
        np.testing.assert_array_equal(getattr(info, name), getattr(other_info, name))


@pytest.mark.parametrize("workers", [1, 8])
def test_result_does_not_depend_on_cores_and_processes(problem, result, monkeypatch, workers):
    """A run above the limit has a process for each group if there are cores."""
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setattr("bandgap.inference.network.sampler.cores", lambda: workers)
    updates = []
    assert_same(run(problem, progress=updates.append), result)
    done = [u.done for u in updates]
    assert done == sorted(set(done)) and (done[-1], updates[-1].total) == (86, 86)


def test_processes_report_groups_of_a_changed_size(problem, monkeypatch):
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setattr("bandgap.inference.network.sampler.CHAINS_PER_GROUP", 1)
    monkeypatch.setattr("bandgap.inference.network.sampler.cores", lambda: 2)
    updates = []
    run(problem, progress=updates.append)
    assert (updates[-1].done, updates[-1].total) == (172, 172)
    assert 0 < updates[-1].values["acceptance"] <= 1


def test_group_without_the_board_gives_the_same_draws_and_writes_no_file(problem, tmp_path):
    """This is the case on a worker of another machine."""
    place = GroupPlace(1, 2, 2, 2, (0, 1))
    path = tmp_path / "missing" / "board"
    file = Checkpoint(tmp_path / "checkpoints" / "chains.safetensors", 5)
    planned = BRIEF.planned(isotropic=problem[0].isotropic)
    in_process = _run_in_process(*problem, planned, place, path, None, file)
    board = _open_board(None, problem[1], planned, groups=2)
    alone = run_group(*problem, planned, place, board=board, report=lambda: None)
    assert torch.equal(in_process.draws.state, alone.draws.state)
    assert torch.equal(in_process.draws.output, alone.draws.output)
    assert list(tmp_path.iterdir()) == []


def test_group_in_a_process_computes_with_one_thread(problem, tmp_path, monkeypatch):
    """With another number of threads of torch or BLAS, sums would be rounded in another way."""
    net, prior = problem
    threads = set()

    class WatchedPrior(type(prior)):
        def scales(self, state):
            blas = [
                library["num_threads"]
                for library in threadpool_info()
                if library["user_api"] == "blas"
            ]
            threads.update([torch.get_num_threads(), *blas])
            return super().scales(state)

    watched = WatchedPrior(
        **{f.name: getattr(prior, f.name) for f in dataclasses.fields(prior) if f.init}
    )
    monkeypatch.delenv("BANDGAP_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(limits=2, user_api="blas"):
            planned = BRIEF.planned(isotropic=net.isotropic)
            _run_in_process(
                net, watched, planned, GroupPlace(0, 1, 0, 2, (0, 0)), tmp_path / "none", None, None
            )
    finally:
        torch.set_num_threads(before)
    assert threads == {1}


def test_chains_and_groups_are_different_draws(result):
    state = result[0].state[:, -1]
    assert len({tuple(row.tolist()) for row in state}) == 4


def test_kept_draws_are_spread_from_the_first_to_the_last(result):
    draws, info = result
    np.testing.assert_array_equal(draws.state.numpy(), info.state[:, [0, 11, 22]])


@pytest.mark.parametrize(
    "chains, keep, n_stored",
    [(2, 2, 1), (2, 7, 3), (3, 60, 20), (2, 1000, 20)],
    ids=["one", "rounded", "all", "too many"],
)
def test_number_of_kept_draws_is_that_of_the_setting_or_all(problem, chains, keep, n_stored):
    draws, info = run(
        problem, config=SamplerConfig(chains=chains, warmup=20, draws=20, keep=keep, angle=0.5)
    )
    assert draws.state.shape[:2] == (chains, n_stored)
    assert info.state.shape[:2] == (chains, 20)


def test_figures_name_every_scale_and_what_is_judged(result):
    figures = result[1].figures()
    assert set(figures) == {
        *(f"rhat_{name}" for name in ("tau", "sigma", "c1", "c2", "c3")),
        *(f"ess_{name}" for name in ("tau", "sigma", "c1", "c2", "c3")),
        "rhat_max", "rhat_fit_max", "ess_min", "ess_fit_median",
        "divergences", "accept_mean", "ebfmi_min", "step_rad", "gradients_per_iteration",
    }  # fmt: skip
    assert all(isinstance(value, float) and np.isfinite(value) for value in figures.values())
    worst = max(value for name, value in figures.items() if name.startswith("rhat_"))
    assert figures["rhat_max"] == worst
    assert 0 < figures["accept_mean"] <= 1


@pytest.mark.parametrize("processes_from", [0, float("inf")], ids=["processes", "in this process"])
def test_cancelling_ends_every_group(problem, monkeypatch, processes_from):
    """A run of minutes: after the exception there is no update and the processes are free."""
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", processes_from)
    monkeypatch.setattr("bandgap.inference.network.sampler.cores", lambda: 2)
    calls = []

    def progress(update):
        calls.append(update.done)
        if len(calls) == 4:
            raise Cancelled("stop here")

    long = SamplerConfig(chains=4, warmup=20_000, draws=2000, angle=0.3)
    with pytest.raises(Cancelled, match="stop here"):
        run(problem, config=long, progress=progress)
    assert len(calls) == 4
    pids = joblib.Parallel(n_jobs=2, timeout=30)(joblib.delayed(os.getpid)() for _ in range(4))
    assert os.getpid() not in pids
    assert len(calls) == 4


def test_error_in_a_group_reaches_the_caller(problem, monkeypatch):
    """Labels of the wrong length make the first likelihood of each group fail, in its process."""
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setattr("bandgap.inference.network.sampler.cores", lambda: 2)
    net, prior = problem
    with pytest.raises(ValueError, match="shape"):
        run((dataclasses.replace(net, y=net.y[:-1]), prior))


def test_updates_have_a_running_rhat_once_every_chain_has_draws(problem, monkeypatch):
    monkeypatch.setattr("bandgap.inference.network.sampler.RHAT_EVERY_S", -1.0)
    updates = []
    _, info = run(problem, progress=updates.append)
    figures = info.figures()
    worst = max(
        value for name, value in figures.items() if name.startswith("rhat_") and "max" not in name
    )
    assert "rhat" not in updates[0].values
    assert updates[-1].values["rhat"] == pytest.approx(worst, rel=1e-12)
    fewest = min(
        value
        for name, value in figures.items()
        if name.startswith("ess_") and "fit" not in name and name != "ess_min"
    )
    assert updates[-1].values["ess_bulk"] == pytest.approx(fewest, rel=1e-12)


@pytest.mark.parametrize(
    "coordinates, least, accepted",
    [("whitened", MAX_STEP * (1 - 1e-6), 0.95), ("partially centred", 0.15, 0.75)],
)
def test_step_stays_below_its_largest_where_every_path_is_accepted(
    problem, coordinates, least, accepted
):
    """With tiny scales no force acts on the weights, and an unbounded step would grow for ever.

    In frames the adaptation restarts at half of the step, with a quarter of the iterations
    remaining. There seeds 0 to 11 gave steps of 0.22 to 0.54 and acceptances of 0.83 to 0.97.
    """
    net, prior = problem
    config = SamplerConfig(
        chains=2, warmup=60, draws=20, keep=2, angle=2.5, coordinates=coordinates
    )
    _, info = run((net, dataclasses.replace(prior, lam=1e6)), config=config)
    assert float(info.accept.mean()) > accepted
    assert least < float(info.step.max()) < MAX_STEP * (1 + 1e-6)
    assert info.n_steps > 1
