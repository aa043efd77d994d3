"""One machine serves a data directory: rows of other machines count only while they beat."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandgap.foundation.errors import BandgapError
from bandgap.jobs import lock
from bandgap.jobs.heartbeats import STALE_S
from bandgap.jobs.home import Home
from bandgap.jobs.lock import this_machine
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import Worker

FAR = "far 00000000-aaaa"
MESSAGE = (
    r"The worker of another machine, far, serves .*\. Its database works on one machine only\. "
    r"Start pages and worker on far; let its worker send work here by BANDGAP_ENGINE and "
    r"BANDGAP_SCHEDULER; or set BANDGAP_HOME to another folder\."
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def write_row(home: Home, *, host: str = FAR, age_s: float = 0.0) -> None:
    with JobStore(home).database.writing() as connection:
        values = ("worker", "its-holder", 1, host, 0.0, time.time() - age_s)
        connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)", values)


@contextlib.contextmanager
def beating(home: Home) -> Iterator[None]:
    """A worker of another machine that renews its row."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.2):
            write_row(home)

    write_row(home)
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def serves(home: Home) -> bool:
    """Whether a worker takes the lock; it ends then."""
    worker = Worker(home)
    has_lock: list[bool] = []

    def until() -> bool:
        has_lock.append(lock.holds(worker.store.database, worker.name))
        return has_lock[-1]

    worker.serve(until=until)
    return has_lock[-1]


def test_worker_is_refused_where_that_of_another_machine_beats(home: Home) -> None:
    with beating(home), pytest.raises(BandgapError, match=MESSAGE):
        serves(home)


def test_worker_starts_when_the_row_of_another_machine_is_stale(home: Home) -> None:
    write_row(home, age_s=STALE_S - 1.5)
    start = time.monotonic()
    assert serves(home)
    assert 1.0 < time.monotonic() - start < STALE_S


def test_worker_of_another_container_on_the_same_machine_is_not_waited_for(home: Home) -> None:
    write_row(home, host=f"5d41402abc4b {this_machine().split()[1]}")
    start = time.monotonic()
    lock.wait_for_other_machine(home, JobStore(home).database, stopped=lambda: False)
    assert time.monotonic() - start < 2 * lock.POLL_S


def test_worker_starts_immediately_after_a_dead_worker_of_this_machine(home: Home) -> None:
    pid = 2**22 + 1  # above the largest number of a process
    with JobStore(home).database.writing() as connection:
        values = ("worker", "dead", pid, this_machine(), 0.0, time.time())
        connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)", values)
    assert serves(home)
