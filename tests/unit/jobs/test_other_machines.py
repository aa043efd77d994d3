"""One machine serves a data directory: rows of other machines count only while they beat."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandgap.jobs import lock, other_machines
from bandgap.jobs.heartbeats import STALE_S
from bandgap.jobs.home import Home
from bandgap.jobs.other_machines import PagesRow, ServedElsewhere, this_machine
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import Worker

FAR = "far 00000000-aaaa"
MESSAGE = (
    r"The {what} of another machine, far, serves? .*\. Its database works on one machine only\. "
    r"Start pages and worker on far; let its worker send work here by BANDGAP_ENGINE and "
    r"BANDGAP_SCHEDULER; or set BANDGAP_HOME to another folder\."
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def write_row(
    home: Home, name: str, *, host: str = FAR, age_s: float = 0.0, since: float = 0.0
) -> None:
    with JobStore(home).database.writing() as connection:
        values = (name, "its-holder", 1, host, since, time.time() - age_s)
        connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)", values)


@contextlib.contextmanager
def beating(home: Home, name: str, *, host: str = FAR, since: float = 0.0) -> Iterator[None]:
    """A process of another machine that renews its row."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.2):
            write_row(home, name, host=host, since=since)

    write_row(home, name, host=host, since=since)
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


@pytest.mark.parametrize(("name", "what"), [("pages 00000000-aaaa", "pages"), ("worker", "worker")])
def test_worker_is_refused_where_pages_or_worker_of_another_machine_beat(
    home: Home, name: str, what: str
) -> None:
    with beating(home, name), pytest.raises(ServedElsewhere, match=MESSAGE.format(what=what)):
        serves(home)
    if what != "worker":
        assert lock.worker_status(JobStore(home).database).age_s is None  # it took no lock


@pytest.mark.parametrize("name", ["pages 00000000-aaaa", "worker"])
def test_worker_starts_when_the_row_of_another_machine_is_stale(home: Home, name: str) -> None:
    write_row(home, name, age_s=STALE_S - 1.5)
    start = time.monotonic()
    assert serves(home)
    assert 1.0 < time.monotonic() - start < STALE_S


def test_worker_starts_next_to_pages_of_a_container_on_the_same_machine(home: Home) -> None:
    machine = this_machine().split()[1]
    with beating(home, f"pages {machine}", host=f"5d41402abc4b {machine}"):
        start = time.monotonic()
        assert serves(home)
    assert time.monotonic() - start < STALE_S / 2


def test_worker_starts_immediately_after_a_dead_worker_of_this_machine(home: Home) -> None:
    pid = 2**22 + 1  # above the largest number of a process
    with JobStore(home).database.writing() as connection:
        values = ("worker", "dead", pid, this_machine(), 0.0, time.time())
        connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)", values)
    assert serves(home)


def test_pages_end_next_to_an_earlier_worker_of_another_machine_but_not_next_to_a_later_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_machines, "BEAT_S", 0.0)
    row = PagesRow(home)
    with beating(home, "worker", since=time.time() + 60.0):
        for _ in range(5):
            row.beat()
            time.sleep(0.2)
    with (
        beating(home, "worker"),
        pytest.raises(ServedElsewhere, match=MESSAGE.format(what="worker")),
    ):
        for _ in range(50):
            row.beat()
            time.sleep(0.2)
    row.end()


def test_pages_have_a_row_until_they_end(home: Home) -> None:
    row = PagesRow(home)
    database = JobStore(home).database
    row.beat()
    (stored_row,) = database.rows("SELECT * FROM lock")
    assert stored_row["name"].startswith("pages ")
    assert stored_row["host"] == this_machine()
    assert time.time() - stored_row["heartbeat"] < STALE_S
    assert serves(home)
    row.end()
    assert not database.rows("SELECT * FROM lock")
