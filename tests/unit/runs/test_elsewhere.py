"""Work on a Dask cluster of two worker processes, one of them killed in the middle, and on Ray: the bytes of local."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.table import learnable
from bandgap.descriptors import featurize
from bandgap.foundation.engines import ENGINE, SCHEDULER, mapped, use_engine
from bandgap.foundation.errors import Cancelled, ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.runs.comparison import ComparedFit, Comparison, compare
from bandgap.runs.transfer import transfer_run
from bandgap.sources.sets import open_sources
from tests.unit.conftest import World, make_records

pytestmark = pytest.mark.slow
SAMPLER = {"sampler": {"chains": 4, "warmup": 60, "draws": 40, "keep": 12}}
QUICK = {"training": {"max_epochs": 10, "batch_size": 8}}


@dataclass
class Cluster:
    """A scheduler and its workers, each a process."""

    address: str
    scheduler: "subprocess.Popen[str]"
    workers: list["subprocess.Popen[str]"]

    def add_worker(self) -> None:
        command = [sys.executable, "-m", "dask", "worker", self.address, "--nthreads=1", "--no-nanny", "--no-dashboard"]
        self.workers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True))

    def kill_one(self) -> None:
        self.workers[0].send_signal(signal.SIGKILL)
        self.workers.pop(0).wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    os.environ["DASK_TEMPORARY_DIRECTORY"] = str(tmp_path_factory.mktemp("dask"))
    command = [sys.executable, "-m", "dask", "scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard", "--no-show"]
    scheduler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(m.group() for line in scheduler.stderr if (m := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
    found = Cluster(address, scheduler, [])
    yield found
    for process in (*found.workers, scheduler):
        process.kill()
        process.wait()
    scheduler.stderr.close()


@pytest.fixture
def two_workers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster with two workers, as the engine of this process."""
    import distributed

    while len(cluster.workers) < 2:
        cluster.add_worker()
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    monkeypatch.setenv(ENGINE, "dask")
    monkeypatch.setenv(SCHEDULER, cluster.address)
    return cluster


def killing(cluster: Cluster, when: Callable[[Update], bool]) -> tuple[Progress, list[Update]]:
    """A progress that kills one worker the first time that `when` holds, and what it was told."""
    told: list[Update] = []

    def note(update: Update, /) -> None:
        told.append(update)
        if len(cluster.workers) == 2 and when(update):
            cluster.kill_one()

    return note, told


def test_descriptors_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.descriptors.vectors.PROCESSES_FROM_ATOMS", 0)
    monkeypatch.setattr("bandgap.descriptors.vectors.CHUNK_ATOMS", 40)
    records = [*make_records(400, seed=31, prefix="new"), world.broken, world.foreign]
    note, told = killing(two_workers, lambda update: update.done > 100)
    found = featurize(records, world.descriptor, progress=note)
    assert len(two_workers.workers) == 1 and told[-1].done == told[-1].total == 401
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    alone = featurize(records, world.descriptor)
    assert found.features.tobytes() == alone.features.tobytes()
    assert (found.problems, found.n_computed) == (alone.problems, alone.n_computed)


def transferred(world: World, source: Path, out: Path, progress: Progress = no_progress) -> dict[str, bytes]:
    """The files of draws of a Bayesian run."""
    how = {"method": "btl_pcp_pe", "settings": SAMPLER, "n": 18, "n_test": 6, "seed": 1, "device": "cpu"}
    transfer_run(source, world.records, world.gaps_eV, out=out, progress=progress, **how)
    return {
        name: (out / name).read_bytes() for name in ("draws.safetensors", "summaries.safetensors", "predictions.csv")
    }


def test_chains_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    note, told = killing(two_workers, lambda update: update.phase == "warm-up" and update.done > 20)
    found = transferred(world, source_folder, tmp_path / "elsewhere", note)
    assert len(two_workers.workers) == 1
    assert any(update.phase == "sampling" and "acceptance" in update.values for update in told)
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    assert found == transferred(world, source_folder, tmp_path / "local")


def test_cancelled_chains_end_at_once(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setitem(SAMPLER, "sampler", {**SAMPLER["sampler"], "warmup": 1_000_000})
    asked: list[float] = []

    def note(update: Update, /) -> None:
        if update.phase == "warm-up" and update.done:
            asked.append(time.monotonic())
            raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        transferred(world, source_folder, tmp_path / "cancelled", note)
    assert time.monotonic() - asked[0] < 10


def figures(fits: list[ComparedFit]) -> list[ComparedFit]:
    return [dataclasses.replace(fit, seconds=0.0) for fit in fits]


def test_splits_of_a_comparison_are_the_same_though_a_worker_is_killed(
    two_workers: Cluster, world: World, source_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = learnable(world.records, world.gaps_eV, descriptor=world.descriptor)
    members = open_sources(source_folder).load()
    plan = Comparison({"fine_tune": QUICK, "kernel_ridge": {}}, (10, 14), (0, 1, 2), 6)
    note, told = killing(two_workers, lambda update: update.done > 0)
    found = list(compare(members, table, plan, device="cpu", progress=note))
    assert len(two_workers.workers) == 1 and told[-1].done == told[-1].total == 24
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    assert figures(found) == figures(list(compare(members, table, plan, device="cpu")))


def power(x: float) -> np.ndarray:
    return np.full(3, x) ** 1.5


def test_scheduler_without_workers_or_answer_says_what_to_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.foundation.engines.CONNECT_S", 1)
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    with pytest.raises(ConfigError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 .*`dask scheduler`"):
        use_engine("dask", "tcp://127.0.0.1:9")


def test_ray_gives_the_same_bytes_in_the_same_order(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr("bandgap.descriptors.vectors.PROCESSES_FROM_ATOMS", 0)
    records = make_records(200, seed=32, prefix="new")
    alone = featurize(records, world.descriptor)
    numbers = [(float(x),) for x in range(30)]
    monkeypatch.setenv(ENGINE, "ray")
    monkeypatch.setenv(SCHEDULER, "")
    try:
        assert featurize(records, world.descriptor).features.tobytes() == alone.features.tobytes()
        found = list(mapped(power, numbers))
    finally:
        ray.shutdown()
    assert [row.tobytes() for row in found] == [power(*x).tobytes() for x in numbers]
