"""A worker that runs for months removes what has been in the bin for too long."""

import logging
import time
import uuid
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs import deletions as deletions_module
from bandgap.jobs import home as home_module
from bandgap.jobs import worker
from bandgap.jobs.deletions import KEPT_DAYS, bin_dataset, deletions
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.worker import PURGE_S, Worker

WS = str(uuid.uuid4())
DAY_S = 86_400.0


class Clocks:
    """The time of day and the time since the start, which advance together.

    They replace the module `time` in the worker and in what it calls. The event loops of other
    threads keep the true one: they would wait for days once it was back.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moved_s = 0.0
        for module in (worker, deletions_module, home_module):
            monkeypatch.setattr(module, "time", self)

    def time(self) -> float:
        return time.time() + self.moved_s

    def monotonic(self) -> float:
        return time.monotonic() + self.moved_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def serve_after(home: Home, clocks: Clocks, moves_s: list[float]) -> list[int]:
    """Serve with these moves of the clocks; return the number of deletions after each."""
    remaining = list(moves_s)
    counts: list[int] = []
    library = Library(home)
    is_moved = False

    def until() -> bool:
        nonlocal is_moved
        if is_moved:
            counts.append(len(deletions(library, WS)))
        is_moved = bool(remaining)
        if remaining:
            clocks.moved_s += remaining.pop(0)
        return len(counts) == len(moves_s)

    Worker(home).serve(until=until)
    return counts


def test_worker_purges_the_bin_once_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    library = Library(home)
    dataset = library.add_dataset(WS, "set", files=[("a.xyz", b"1\n\nH 0 0 0\n")])
    bin_dataset(library, WS, dataset.id)
    clocks = Clocks(monkeypatch)
    almost = KEPT_DAYS * DAY_S - 60.0
    # at the second move the limit is passed, but the last look was less than an hour ago
    assert serve_after(home, clocks, [almost, 120.0, PURGE_S]) == [1, 1, 0]


def test_bin_that_cannot_be_purged_does_not_end_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(home: Home) -> None:
        raise InputError("in use")

    monkeypatch.setattr(worker, "drop_old_deletions", refuse)
    clocks = Clocks(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert serve_after(Home(tmp_path), clocks, [0.0, PURGE_S]) == [0, 0]
    assert caplog.messages.count("the bin could not be purged: in use") == 2
