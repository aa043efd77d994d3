"""Engines with two workers each: a Dask cluster of processes, and Ray."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bandgap.foundation.engines import ENGINE, SCHEDULER
from tests.unit.runs.dask_cluster import Cluster
from tests.unit.runs.ray_workers import RayWorkers


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
    cluster.killed, before = 0, cluster.steps()
    yield cluster
    assert cluster.steps() > before, "nothing was computed on the workers"


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """Two workers of Ray on this machine."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.fixture
def on_ray(ray_here: None, monkeypatch: pytest.MonkeyPatch) -> RayWorkers:
    """Ray as the engine of this process."""
    monkeypatch.setenv(ENGINE, "ray")
    monkeypatch.setenv(SCHEDULER, "")
    return RayWorkers()


@pytest.fixture(params=["two_workers", "on_ray"], ids=["dask", "ray"])
def workers(request: pytest.FixtureRequest) -> Cluster | RayWorkers:
    """Two workers of either engine, as that of this process."""
    found: Cluster | RayWorkers = request.getfixturevalue(request.param)
    return found
