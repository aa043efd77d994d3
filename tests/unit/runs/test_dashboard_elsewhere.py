"""The dashboard on a Dask cluster, and messages about an unusable scheduler."""

import io
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from ase.io import write

from bandgap.foundation.engines import ENGINE, SCHEDULER, use_engine
from bandgap.foundation.errors import ConfigError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.transfers import transfer_labelled
from tests.unit.conftest import World, make_records
from tests.unit.jobs.labelled_sets import add_labelled_set
from tests.unit.runs.dask_cluster import Cluster

pytestmark = pytest.mark.slow
STACK = {"samples": 6, "choice_samples": 2, "training": {"epochs": 40, "chunk": 2}}
QUICK = {"training": {"max_epochs": 10, "batch_size": 8}}


def test_job_of_the_dashboard_computes_on_workers_that_know_no_data_directory(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers of the engine write nothing to BANDGAP_HOME.

    The dashboard and its worker share it; those of the engine receive items and return results.
    """
    monkeypatch.setattr("bandgap.descriptors.vectors.MIN_ATOMS_FOR_PROCESSES", 0)
    files = {}
    for place, engine in (("elsewhere", "dask"), ("local", "")):
        monkeypatch.setenv(ENGINE, engine)
        monkeypatch.setenv(SCHEDULER, two_workers.address if engine else "")
        home = Home(tmp_path / place)
        home.folder.mkdir()
        jobs = JobStore(home)
        workspace = str(uuid.UUID(int=7))
        dataset = add_labelled_set(home, workspace, world, source_folder)
        run = str(uuid.UUID(int=8))
        request = TransferRequest(
            method="nptl", settings=STACK, n=16, n_test=4, seed=1, device="cpu"
        )
        payload = {
            "run": run,
            "dataset": dataset.id,
            "source": "toy",
            "request": request.to_values(),
        }
        job = jobs.submit(
            workspace, "transfer", title="transfer", payload=payload, subject=dataset.id
        )
        assert work_all(home) == 1 and jobs.job(workspace, job.id).state == "finished"
        files[place] = (home.run_folder(run) / "draws.safetensors").read_bytes()
    assert files["elsewhere"] == files["local"]
    assert not list(two_workers.folder.rglob("*.safetensors")) and not list(
        two_workers.folder.rglob("*.sqlite3")
    )


def test_scheduler_without_workers_or_answer_says_what_to_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.foundation.engines.CONNECT_S", 1)
    monkeypatch.setenv(ENGINE, "")
    monkeypatch.setenv(SCHEDULER, "")
    with pytest.raises(
        ConfigError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9 .*`dask scheduler`"
    ):
        use_engine("dask", "tcp://127.0.0.1:9")


def test_worker_of_the_dashboard_predicts_on_its_engine(
    two_workers: Cluster,
    world: World,
    source_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """BANDGAP_ENGINE of the worker's process is that of its jobs, each a process of its own."""
    home = Home(tmp_path)
    library = Library(home)
    jobs = JobStore(home)
    workspace = str(uuid.uuid4())
    run = str(uuid.uuid4())
    how = {
        "method": "fine_tune",
        "settings": QUICK,
        "n": 18,
        "n_test": 6,
        "seed": 1,
        "device": "cpu",
    }
    monkeypatch.setenv(ENGINE, "")
    transfer_labelled(source_folder, world.records, world.gaps_eV, out=home.run_folder(run), **how)
    text = io.StringIO()
    write(
        text,
        [record.atoms for record in make_records(2_050, seed=34, prefix="new")],
        format="extxyz",
    )
    facts = {"source": "toy", "title": "t", "request": TransferRequest(method="fine_tune")}
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
        before = two_workers.steps()
        deadline = time.monotonic() + 300
        try:
            while jobs.job(workspace, job.id).active:
                assert worker.poll() is None and time.monotonic() < deadline
                time.sleep(0.2)
        finally:
            worker.terminate()
            worker.wait()
        assert jobs.job(workspace, job.id).state == "finished", jobs.job(workspace, job.id).error
        assert (two_workers.steps() > before) == (engine == "dask")
        tables[engine] = (home.prediction_folder(run, job.id) / "predictions.csv").read_bytes()
    assert tables["dask"] == tables["local"] and tables["dask"].count(b"\n") == 2_051
