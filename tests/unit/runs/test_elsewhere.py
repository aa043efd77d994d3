"""Work on two workers of Dask, one of them killed in the middle: the bytes of local."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandgap.descriptors import featurize
from bandgap.foundation.engines import ENGINE, SCHEDULER
from bandgap.foundation.errors import Cancelled
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.runs.chunks import ChunkPlan, predict_chunks
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from tests.transfers import transfer_labelled
from tests.unit.conftest import World, make_records
from tests.unit.runs.dask_cluster import Cluster

pytestmark = pytest.mark.slow
SAMPLER = {"sampler": {"chains": 4, "warmup": 60, "draws": 40, "keep": 12}}
STACK = {"samples": 6, "choice_samples": 2, "training": {"epochs": 40, "chunk": 2}}
SETTINGS: dict[str, dict[str, Any]] = {
    "btl_pcp_pe": SAMPLER,
    "nptl": STACK,
    "last_layer_horseshoe": {"sampler": {"chains": 6, "warmup": 200, "draws": 4000, "keep": 12}},
    "vecchia_gp": {
        "process": {"nu": 1.5, "metropolis": {"chains": 3, "warmup": 100, "draws": 4000}}
    },
    "vecchia_gp by sites": {
        "process": {
            "nu": 1.5,
            "likelihood": "vecchia",
            "sampler": "sgrld",
            "neighbours": 5,
            "sgrld": {"batch": 9, "warmup": 100, "draws": 4000, "thin": 4},
        }
    },
    "ulisse_gp": {"solves": {"chains": 3, "warmup": 100, "draws": 400}},
}
QUICK = {"training": {"max_epochs": 10, "batch_size": 8}}


def killing(cluster: Cluster, when: Callable[[Update], bool]) -> tuple[Progress, list[Update]]:
    """Return a progress that kills one worker when `when` is first true, and its updates."""
    updates: list[Update] = []

    def note(update: Update, /) -> None:
        updates.append(update)
        if not cluster.killed and when(update):
            cluster.kill_one()

    return note, updates


@contextmanager
def killing_at_work(
    cluster: Cluster, when: Callable[[Update], bool]
) -> Iterator[tuple[Progress, list[Update]]]:
    """Yield a progress that kills one worker after `when` is first true, and its updates.

    The worker is killed while it computes the next item.
    """
    updates: list[Update] = []
    requested = threading.Event()
    ended = threading.Event()

    def kill() -> None:
        requested.wait()
        while not (cluster.killed or ended.wait(0.02)):
            cluster.kill_one()

    def note(update: Update, /) -> None:
        updates.append(update)
        if when(update):
            requested.set()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield note, updates
    finally:
        ended.set()
        requested.set()
        killer.join()


def test_descriptors_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.descriptors.vectors.MIN_ATOMS_FOR_PROCESSES", 0)
    monkeypatch.setattr("bandgap.descriptors.vectors.CHUNK_ATOMS", 40)
    records = [*make_records(400, seed=31, prefix="new"), world.broken, world.foreign]
    note, updates = killing(two_workers, lambda update: update.done > 100)
    result = featurize(records, world.descriptor, progress=note)
    assert two_workers.killed == 1 and updates[-1].done == updates[-1].total == 401
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    alone = featurize(records, world.descriptor)
    assert result.features.tobytes() == alone.features.tobytes()
    assert (result.problems, result.n_computed) == (alone.problems, alone.n_computed)


def transferred(
    world: World,
    source: Path,
    out: Path,
    progress: Progress = no_progress,
    *,
    method: str = "btl_pcp_pe",
) -> dict[str, bytes]:
    """The files of draws of a run."""
    how = {
        "method": method.split(maxsplit=1)[0],
        "settings": SETTINGS[method],
        "n": 18,
        "n_test": 6,
        "seed": 1,
        "device": "cpu",
    }
    transfer_labelled(source, world.records, world.gaps_eV, out=out, progress=progress, **how)
    return {
        name: (out / name).read_bytes()
        for name in ("draws.safetensors", "summaries.safetensors", "predictions.csv")
    }


def test_chains_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    note, updates = killing(
        two_workers, lambda update: update.phase == "warm-up" and update.done > 20
    )
    result = transferred(world, source_folder, tmp_path / "elsewhere", note)
    assert two_workers.killed == 1
    assert any(update.phase == "sampling" and "acceptance" in update.values for update in updates)
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    assert result == transferred(world, source_folder, tmp_path / "local")


@pytest.mark.parametrize(
    "method", ["last_layer_horseshoe", "vecchia_gp", "vecchia_gp by sites", "ulisse_gp"]
)
def test_chains_of_one_layer_and_of_kernels_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    phases = ("sampling the output layer", "sampling the covariance")
    with killing_at_work(
        two_workers, lambda update: update.phase in phases and update.done > 0
    ) as (note, updates):
        result = transferred(world, source_folder, tmp_path / "elsewhere", note, method=method)
    last = [update for update in updates if update.phase in phases][-1]
    assert two_workers.killed == 1 and last.done == last.total
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    assert result == transferred(world, source_folder, tmp_path / "local", method=method)


def test_chains_of_a_kernel_that_were_cancelled_elsewhere_go_on_here(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chains_of(updates: list[Update]) -> list[int]:
        return [
            update.done
            for update in updates
            if update.phase == "sampling the covariance" and update.done
        ]

    remote_updates: list[Update] = []
    local_updates: list[Update] = []

    def note(update: Update, /) -> None:
        remote_updates.append(update)
        if 1000 < max(chains_of([update]), default=0) < 4100:
            raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        transferred(world, source_folder, tmp_path / "run", note, method="vecchia_gp")
    assert np.diff(chains_of(remote_updates)).max() > 25, "a stretch is one block for ever"
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    again = transferred(
        world, source_folder, tmp_path / "run", local_updates.append, method="vecchia_gp"
    )
    assert chains_of(local_updates)[0] == chains_of(remote_updates)[-1] + 25
    assert again == transferred(world, source_folder, tmp_path / "local", method="vecchia_gp")


def test_cancelled_chains_end_at_once(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setitem(SAMPLER, "sampler", {**SAMPLER["sampler"], "warmup": 1_000_000})
    requested: list[float] = []

    def note(update: Update, /) -> None:
        if update.phase == "warm-up" and update.done:
            requested.append(time.monotonic())
            raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        transferred(world, source_folder, tmp_path / "cancelled", note)
    assert time.monotonic() - requested[0] < 10


def test_predictions_are_the_same_rows_though_a_worker_is_killed(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bandgap.runs.chunks.PROCESSES_FROM", 0)
    records = [*make_records(60, seed=32, prefix="new"), world.broken, world.foreign]
    how = {
        "method": "fine_tune",
        "settings": QUICK,
        "n": 18,
        "n_test": 6,
        "seed": 1,
        "device": "cpu",
    }
    model = transfer_labelled(
        source_folder, world.records, world.gaps_eV, out=tmp_path / "run", **how
    )
    note, updates = killing(two_workers, lambda update: update.done > 20)
    plan = ChunkPlan(Path(model), PredictRequest(chunk_size=4))
    result = list(predict_chunks(records, plan, n=len(records), progress=note))
    assert two_workers.killed == 1 and updates[-1].done == updates[-1].total == 62
    assert [record.id for chunk in result for record in chunk.records] == [
        record.id for record in records
    ]
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    alone = predict_run(model, records).to_csv()
    assert (
        "".join(chunk.predictions.to_csv().partition("\n")[2] for chunk in result)
        == alone.partition("\n")[2]
    )
