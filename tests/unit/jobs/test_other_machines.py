"""One machine serves a data directory: what beats elsewhere is refused, what a machine that is gone left is not."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandgap.jobs import lock, other_machines
from bandgap.jobs.heartbeats import STALE_S
from bandgap.jobs.home import Home
from bandgap.jobs.other_machines import PagesRow, ServedElsewhere, here
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import Worker

FAR = "far 00000000-aaaa"
IN_WORDS = (
    r"The {what} of another machine, far, serves? .*\. Its database holds on one machine alone\. "
    r"Start pages and worker on far; let its worker send work here by BANDGAP_ENGINE and BANDGAP_SCHEDULER; "
    r"or set BANDGAP_HOME to another folder\."
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
    taken: list[bool] = []

    def until() -> bool:
        taken.append(lock.holds(worker.store.database, worker.name))
        return taken[-1]

    worker.serve(until=until)
    return taken[-1]


@pytest.mark.parametrize(("name", "what"), [("pages 00000000-aaaa", "pages"), ("worker", "worker")])
def test_worker_is_refused_where_pages_or_worker_of_another_machine_beat(
    home: Home, name: str, what: str
) -> None:
    with beating(home, name), pytest.raises(ServedElsewhere, match=IN_WORDS.format(what=what)):
        serves(home)
    assert (
        lock.worker_status(JobStore(home).database).age_s is None or what == "worker"
    )  # it took no lock


@pytest.mark.parametrize("name", ["pages 00000000-aaaa", "worker"])
def test_worker_goes_on_when_what_another_machine_left_behind_is_stale(
    home: Home, name: str
) -> None:
    write_row(home, name, age_s=STALE_S - 1.5)
    start = time.monotonic()
    assert serves(home)
    assert 1.0 < time.monotonic() - start < STALE_S


def test_worker_goes_on_beside_pages_of_a_container_of_the_same_machine(home: Home) -> None:
    machine = here().split()[1]
    with beating(home, f"pages {machine}", host=f"5d41402abc4b {machine}"):
        start = time.monotonic()
        assert serves(home)
    assert time.monotonic() - start < STALE_S / 2


def test_worker_of_this_machine_that_is_gone_is_followed_at_once_also_after_a_new_version(
    home: Home,
) -> None:
    """Rows of earlier versions hold the host name alone; a process of the number 2^22 + 1 cannot be."""
    for host in (here(), here().split()[0]):
        with JobStore(home).database.writing() as connection:
            values = ("worker", "gone", 2**22 + 1, host, 0.0, time.time())
            connection.execute("INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)", values)
        assert serves(home)


def test_pages_end_where_a_worker_of_another_machine_was_before_them_and_stay_where_it_came_later(
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
        pytest.raises(ServedElsewhere, match=IN_WORDS.format(what="worker")),
    ):
        for _ in range(50):
            row.beat()
            time.sleep(0.2)
    row.end()


def test_pages_have_a_row_until_they_end(home: Home) -> None:
    row, database = PagesRow(home), JobStore(home).database
    row.beat()
    (own,) = database.rows("SELECT * FROM lock")
    assert (
        own["name"].startswith("pages ")
        and own["host"] == here()
        and time.time() - own["heartbeat"] < STALE_S
    )
    assert serves(home)
    row.end()
    assert not database.rows("SELECT * FROM lock")
