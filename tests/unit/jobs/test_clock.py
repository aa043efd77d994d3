"""The clock of the machine is set while a job runs: progress, cancel and heartbeats still work."""

import time
import uuid
from pathlib import Path

import pytest

from bandgap.foundation.progress import Update
from bandgap.jobs import heartbeats, lock
from bandgap.jobs.heartbeats import STALE_S, ClockWatch, is_stale
from bandgap.jobs.home import Home
from bandgap.jobs.job_process import JobProgress
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import Worker

WS = str(uuid.uuid4())
HOUR = 3600.0


class Clock:
    """The time of day, as `time.time` gives it: it can be set."""

    def __init__(self) -> None:
        self.moved, self._true = 0.0, time.time

    def __call__(self) -> float:
        return self._true() + self.moved


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    test_clock = Clock()
    monkeypatch.setattr(time, "time", test_clock)
    monkeypatch.setattr(heartbeats, "_CLOCK", ClockWatch())
    return test_clock


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(Home(tmp_path))


def submitted(store: JobStore) -> Job:
    return store.submit(WS, "check", title="c", payload={}, subject="s")


def stored(store: JobStore, job: Job) -> Job:
    stored_job = store.job(WS, job.id)
    assert stored_job is not None
    return stored_job


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_progress_is_written_after_the_clock_was_set(
    store: JobStore, clock: Clock, step: float
) -> None:
    job = submitted(store)
    progress = JobProgress(store, job.id)
    progress(Update("sampling", 1, 10))
    clock.moved = step
    time.sleep(0.6)
    progress(Update("sampling", 2, 10))
    (_first, second) = store.events(job.id)
    assert second.update.done == 2
    assert 0.5 < second.time - second.since < 30.0  # seconds of work, whatever the clock says


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_job_with_a_living_worker_runs_on_after_the_clock_was_set(
    store: JobStore, clock: Clock, step: float
) -> None:
    job = submitted(store)
    store.claim("w")
    store.add_event(job.id, "progress", Update("sampling", 1, 10), since=time.time())
    clock.moved = step
    assert stored(store, job).state == "running"  # the worker has not renewed its heartbeat yet
    store.beat("w", [job.id], clock_step=step)
    stored_job, (event,) = stored(store, job), store.events(job.id)
    assert stored_job.state == "running" and stored_job.started is not None
    assert all(
        0.0 <= time.time() - at < 30.0 for at in (stored_job.started, event.time, event.since)
    )


def test_job_of_a_dead_worker_is_interrupted_though_its_heartbeat_lies_in_the_future(
    store: JobStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submitted(store)
    store.claim("w")
    assert lock.acquire(store.database, "w")
    clock.moved = -HOUR
    assert lock.worker_status(store.database).alive
    monkeypatch.setattr(heartbeats, "RENEWAL_S", 0.0)  # as after that time
    assert stored(store, job).state == "interrupted"
    status = lock.worker_status(store.database)
    assert not status.alive and status.age_s == 0.0
    assert lock.acquire(store.database, "another")


def test_heartbeats_of_a_clock_that_runs_evenly_are_judged_by_their_age(clock: Clock) -> None:
    assert not is_stale(time.time()) and not is_stale(time.time() - STALE_S + 1)
    assert is_stale(time.time() - STALE_S - 1) and is_stale(None)


def test_jobs_are_claimed_and_listed_in_the_order_of_their_submission(
    store: JobStore, clock: Clock
) -> None:
    first = submitted(store)
    clock.moved = -HOUR
    second = submitted(store)
    assert store.latest(WS, "s") == second and store.jobs(WS) == [second, first]
    assert (len(store.jobs_before(first)), len(store.jobs_before(second))) == (0, 1)
    assert [store.claim("w"), store.claim("w")] == [stored(store, first), stored(store, second)]


@pytest.mark.parametrize("step", [-HOUR, HOUR])
def test_worker_moves_the_times_of_its_job_when_the_clock_is_set(
    store: JobStore, clock: Clock, step: float
) -> None:
    job = submitted(store)
    ages: list[float] = []

    def until() -> bool:
        started = stored(store, job).started
        if started is not None:
            clock.moved = step
            ages.append(time.time() - started)
        return len(ages) > 1

    Worker(store.home).serve(until=until)
    assert abs(ages[0]) > HOUR / 2 and 0.0 <= ages[-1] < 30.0
