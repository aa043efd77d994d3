"""A Dask cluster of two worker processes."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bandgap.foundation.engines import ENGINE, SCHEDULER
from tests.unit.runs.dask_cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("dask")
    command = [
        sys.executable,
        "-m",
        "dask",
        "scheduler",
        "--host=127.0.0.1",
        "--port=0",
        "--no-dashboard",
        "--no-show",
    ]
    scheduler = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert scheduler.stderr is not None
    address = next(
        m.group() for line in scheduler.stderr if (m := re.search(r"tcp://127\.0\.0\.1:\d+", line))
    )
    new_cluster = Cluster(address, scheduler, [], folder)
    yield new_cluster
    for process in (*new_cluster.workers, scheduler):
        process.kill()
        process.wait()
    scheduler.stderr.close()


@pytest.fixture
def two_workers(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster with two workers as the engine; every test must compute something on it."""
    import distributed

    cluster.forget_dead_workers()
    while len(cluster.workers) < 2:
        cluster.add_worker()
    with distributed.Client(cluster.address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    monkeypatch.setenv(ENGINE, "dask")
    monkeypatch.setenv(SCHEDULER, cluster.address)
    cluster.killed, before = 0, cluster.steps()
    yield cluster
    assert cluster.steps() > before, "nothing was computed on the workers"
