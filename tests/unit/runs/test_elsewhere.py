"""Work on a Dask cluster of two worker processes, one of them killed in the middle: the bytes of local."""

import dataclasses
import io
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ase.io import write

from bandgap.datasets.table import learnable
from bandgap.descriptors import featurize
from bandgap.foundation.engines import ENGINE, SCHEDULER, use_engine
from bandgap.foundation.errors import Cancelled, ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.chunks import ChunkPlan, predict_chunks
from bandgap.runs.compared_fits import ComparedFit
from bandgap.runs.comparison import Comparison, compare
from bandgap.runs.prediction import predict_run
from bandgap.runs.transfer import transfer_run
from bandgap.sources.sets import open_sources
from tests.unit.conftest import World, make_records
from tests.unit.jobs.labelled_sets import add_labelled_set
from tests.unit.runs.dask_cluster import Cluster

pytestmark = pytest.mark.slow
SAMPLER = {"sampler": {"chains": 4, "warmup": 60, "draws": 40, "keep": 12}}
STACK = {"samples": 6, "choice_samples": 2, "training": {"epochs": 40, "chunk": 2}}
SETTINGS = {"btl_pcp_pe": SAMPLER, "nptl": STACK}
QUICK = {"training": {"max_epochs": 10, "batch_size": 8}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    command = [sys.executable, "-m", "dask", "scheduler", "--host=127.0.0.1", "--port=0", "--no-dashboard", "--no-show"]
    scheduler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(m.group() for line in scheduler.stderr if (m := re.search(r"tcp://127\.0\.0\.1:\d+", line)))
    found = Cluster(address, scheduler, [], folder)
    yield found
    for process in (*found.workers, scheduler):
        process.kill()
        process.wait()
    scheduler.stderr.close()


@pytest.fixture
def two_workers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster with two workers, as the engine of this process; every test must have computed something there."""
    import distributed

    while len(cluster.workers) < 2:
        cluster.add_worker()
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    monkeypatch.setenv(ENGINE, "dask")
    monkeypatch.setenv(SCHEDULER, cluster.address)
    before = steps(cluster)
    yield cluster
    assert steps(cluster) > before, "nothing was computed on the workers"


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


def transferred(
    world: World, source: Path, out: Path, progress: Progress = no_progress, *, method: str = "btl_pcp_pe"
) -> dict[str, bytes]:
    """The files of draws of a run."""
    how = {"method": method, "settings": SETTINGS[method], "n": 18, "n_test": 6, "seed": 1, "device": "cpu"}
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


def test_nptl_samples_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, told = killing(two_workers, lambda update: update.phase == "choosing alpha" and update.done > 0)
    found = transferred(world, source_folder, tmp_path / "elsewhere", note, method="nptl")
    assert len(two_workers.workers) == 1
    assert [update.done for update in told if update.phase == "training"][-3:] == [40, 80, 120]
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    assert found == transferred(world, source_folder, tmp_path / "local", method="nptl")


def test_predictions_are_the_same_rows_though_a_worker_is_killed(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.runs.chunks.PROCESSES_FROM", 0)
    records = [*make_records(60, seed=32, prefix="new"), world.broken, world.foreign]
    how = {"method": "fine_tune", "settings": QUICK, "n": 18, "n_test": 6, "seed": 1, "device": "cpu"}
    model = transfer_run(source_folder, world.records, world.gaps_eV, out=tmp_path / "run", **how)
    note, told = killing(two_workers, lambda update: update.done > 20)
    plan = ChunkPlan(Path(model), size=4)
    found = list(predict_chunks(records, plan, n=len(records), progress=note))
    assert len(two_workers.workers) == 1 and told[-1].done == told[-1].total == 62
    assert [record.id for chunk in found for record in chunk.records] == [record.id for record in records]
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    alone = predict_run(model, records).to_csv()
    assert "".join(chunk.predictions.to_csv().partition("\n")[2] for chunk in found) == alone.partition("\n")[2]


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


def test_job_of_the_dashboard_computes_on_workers_that_know_no_data_directory(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages and worker share BANDGAP_HOME; those of the engine get items and give back results, and write nothing."""
    monkeypatch.setattr("bandgap.descriptors.vectors.PROCESSES_FROM_ATOMS", 0)
    files = {}
    for place, engine in (("elsewhere", "dask"), ("local", "")):
        monkeypatch.setenv(ENGINE, engine)
        monkeypatch.setenv(SCHEDULER, two_workers.address if engine else "")
        home = Home(tmp_path / place)
        home.folder.mkdir()
        jobs, workspace = JobStore(home), str(uuid.UUID(int=7))
        dataset = add_labelled_set(home, workspace, world, source_folder)
        run = str(uuid.UUID(int=8))
        how = {"run": run, "dataset": dataset.id, "source": "toy", "method": "nptl", "settings": STACK}
        payload = how | {"n": 16, "n_test": 4, "seed": 1, "device": "cpu"}
        job = jobs.submit(workspace, "transfer", title="transfer", payload=payload, subject=dataset.id)
        assert work_all(home) == 1 and jobs.job(workspace, job.id).state == "finished"
        files[place] = (home.run_folder(run) / "draws.safetensors").read_bytes()
    assert files["elsewhere"] == files["local"]
    assert not list(two_workers.folder.rglob("*.safetensors")) and not list(two_workers.folder.rglob("*.sqlite3"))


def test_scheduler_without_workers_or_answer_says_what_to_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.foundation.engines.CONNECT_S", 1)
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    with pytest.raises(ConfigError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 .*`dask scheduler`"):
        use_engine("dask", "tcp://127.0.0.1:9")


def test_electron_levels_on_dask_are_the_same_bytes_though_a_worker_is_killed(
    two_workers: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tblite")
    monkeypatch.setattr("bandgap.descriptors.vectors.SLOW_PROCESSES_FROM", 0)
    monkeypatch.setattr("bandgap.descriptors.vectors.SLOW_CHUNK_ATOMS", 20)
    records = [*make_records(40, seed=33, prefix="new"), world.broken]
    levels = dataclasses.replace(world.descriptor, levels="GFN1-xTB")
    note, told = killing(two_workers, lambda update: update.done > 8)
    found = featurize(records, levels, progress=note)
    assert len(two_workers.workers) == 1 and told[-1].done == told[-1].total == 40
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    alone = featurize(records, levels)
    assert found.features.tobytes() == alone.features.tobytes() and found.problems == alone.problems
    assert found.features.shape[1] == featurize(records[:1], world.descriptor).features.shape[1] + 3
    assert np.isfinite(found.features[:40, -3:]).all() and (found.features[:40, -3] > 0).all()


def test_worker_of_the_dashboard_predicts_on_its_engine_and_says_what_is_wrong_with_it(
    two_workers: Cluster, world: World, source_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BANDGAP_ENGINE of the worker's process is that of its jobs, each a process of its own."""
    home = Home(tmp_path)
    library, jobs, workspace = Library(home), JobStore(home), str(uuid.uuid4())
    run = str(uuid.uuid4())
    how = {"method": "fine_tune", "settings": QUICK, "n": 18, "n_test": 6, "seed": 1, "device": "cpu"}
    monkeypatch.setenv(ENGINE, "")
    transfer_run(source_folder, world.records, world.gaps_eV, out=home.run_folder(run), **how)
    text = io.StringIO()
    write(text, [record.atoms for record in make_records(2_050, seed=34, prefix="new")], format="extxyz")
    facts = {"source": "toy", "method": "fine_tune", "title": "t", "config": {}}
    library.add_run(workspace, job="none", run_id=run, dataset="none", **facts)
    upload = [("new.extxyz", text.getvalue().encode())]
    dataset = library.add_dataset(workspace, "new", purpose="prediction", files=upload).id
    tables = {}
    for engine in ("dask", "local"):
        payload = {"run": run, "dataset": dataset, "name": engine}
        job = jobs.submit(workspace, "predict", title="p", payload=payload, subject=dataset)
        environment = {**os.environ, "BANDGAP_HOME": str(tmp_path), ENGINE: engine}
        environment[SCHEDULER] = two_workers.address if engine == "dask" else ""
        worker = subprocess.Popen([sys.executable, "-m", "bandgap.jobs.worker"], env=environment)
        before, deadline = steps(two_workers), time.monotonic() + 300
        try:
            while jobs.job(workspace, job.id).active:
                assert worker.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        finally:
            worker.terminate()
            worker.wait()
        assert jobs.job(workspace, job.id).state == "finished", jobs.job(workspace, job.id).error
        assert (steps(two_workers) > before) == (engine == "dask")
        tables[engine] = (home.prediction_folder(run, job.id) / "predictions.csv").read_bytes()
    assert tables["dask"] == tables["local"] and tables["dask"].count(b"\n") == 2_051
    environment = {**os.environ, "BANDGAP_HOME": str(tmp_path), ENGINE: "dusk"}
    wrong = subprocess.run(
        [sys.executable, "-m", "bandgap.jobs.worker"], env=environment, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1 and wrong.stderr.startswith("engine is 'dusk'. Accepted: local, dask, ray")


def steps(cluster: Cluster) -> int:
    """Return how many steps all tasks of a cluster have taken since its scheduler was started."""
    import distributed

    def counted(dask_scheduler: distributed.Scheduler) -> int:
        return int(dask_scheduler.transition_counter)

    with distributed.Client(cluster.address, set_as_default=False) as client:
        return int(client.run_on_scheduler(counted))
