"""The process of a job: warnings in the job's log, and stacks on SIGUSR1."""

import logging
import multiprocessing
import os
import signal
import sys
import time
import uuid

import pytest

from bandgap.foundation.progress import Update
from bandgap.jobs.home import Home
from bandgap.jobs.job_process import job_main, limits_of, run_job
from bandgap.jobs.kinds import KINDS
from bandgap.jobs.store import JobStore
from bandgap.jobs.tasks import TASKS
from tests.unit.jobs.changed_start import staying_start_up
from tests.unit.jobs.test_worker import wait_for

WS = str(uuid.uuid4())


def test_warnings_of_the_library_are_events_of_the_job_and_of_no_other(tmp_path, monkeypatch):
    log = logging.getLogger("bandgap.somewhere")

    def warns(work):
        work.progress(Update("reading", 1, 2))
        log.warning("the cache holds %d damaged rows", 3)
        log.info("nothing to see")
        return {}

    monkeypatch.setitem(TASKS, "check", warns)
    store = JobStore(Home(tmp_path))
    job = store.submit(WS, "check", title="t", payload={}, subject="s")
    run_job(store, job)
    log.warning("after the job")
    events = store.events(job.id)
    assert [(e.kind, e.update.message) for e in events] == [
        ("progress", ""),
        ("log", "the cache holds 3 damaged rows"),
    ]
    assert store.job(WS, job.id).state == "finished"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_job_process_writes_the_stacks_of_its_threads_to_stderr_on_sigusr1(
    tmp_path, monkeypatch, capfd
):
    path = os.pathsep.join([staying_start_up(tmp_path / "start"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    store = JobStore(Home(tmp_path))
    job = store.submit(WS, "check", title="t", payload={"dataset": "none"}, subject="none")
    store.claim("worker")
    process = multiprocessing.get_context("spawn").Process(
        target=job_main, args=(str(tmp_path), job.id, 0, 1)
    )
    process.start()
    try:
        wait_for(lambda: store.has_ended(job.id), within_s=60.0)
        assert process.is_alive(), "the thread of the start-up module keeps it"

        def has_stacks() -> bool:
            """Ask for the stacks: the job ends a moment before the process waits for threads."""
            os.kill(process.pid, signal.SIGUSR1)
            time.sleep(0.2)
            stacks = capfd.readouterr().err
            n_threads = stacks.count("most recent call first")  # main, start-up module, parent
            return n_threads >= 3 and "in _shutdown" in stacks and "in _end_with_parent" in stacks

        wait_for(has_stacks, within_s=60.0)
        assert process.is_alive()
    finally:
        process.kill()
        process.join()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set on Linux")
def test_job_that_needs_more_memory_than_its_kind_may_take_fails_alone(tmp_path, monkeypatch):
    """The memory is only requested, and never written to."""
    monkeypatch.setitem(TASKS, "add_run", lambda *_: {"n": len(bytearray(9_000_000_000))})
    store = JobStore(Home(tmp_path))
    job = store.submit(WS, "add_run", title="t", payload={}, subject="s")
    store.claim("worker")
    process = multiprocessing.get_context("fork").Process(
        target=job_main, args=(str(tmp_path), job.id, 0, 1)
    )
    process.start()
    process.join(60)
    ended = store.job(WS, job.id)
    assert (ended.state, ended.error[:36]) == ("failed", "The computation ran out of memory. U")


def test_every_kind_of_job_has_a_limit_of_time():
    assert set(TASKS) == set(KINDS)
    hours = {kind: limits_of(kind).seconds / 3600 for kind in KINDS}
    assert hours["check"] == hours["add_run"] == 0.5
    assert hours["transfer"] == max(hours.values()) == 14 * 24
