"""The worker's loop with real job processes, its lock, and the progress that a job writes."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bandgap.foundation.errors import BandgapError, Cancelled
from bandgap.foundation.progress import Update
from bandgap.jobs import lock, worker
from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.home import Home
from bandgap.jobs.job_process import JobLimits, JobProgress
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import Timing, Worker, work_once

WS = str(uuid.uuid4())
WATER = b"3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def submit_check(home: Home, files: list[tuple[str, bytes]]) -> Job:
    dataset = Library(home).add_dataset(WS, "set", files=files)
    return JobStore(home).submit(
        WS, "check", title="check", payload={"dataset": dataset.id}, subject=dataset.id
    )


def state_of(home: Home, job: Job) -> Job:
    stored_job = JobStore(home).job(WS, job.id)
    assert stored_job is not None
    return stored_job


def wait_for(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


@pytest.fixture
def serving(home: Home) -> Iterator[Worker]:
    worker = Worker(home, timing=Timing(cancel_grace_s=0.0, kill_grace_s=2.0))
    thread = threading.Thread(target=worker.serve)
    thread.start()
    yield worker
    worker.stop()
    thread.join()


def test_check_job_gives_a_verdict_per_file(home: Home) -> None:
    job = submit_check(
        home, [("water.xyz", WATER), ("broken.cif", b"data_x\n_cell_length_a nonsense\n")]
    )
    assert work_once(home)
    assert state_of(home, job).state == "finished"
    verdicts = Library(home).verdicts(job.subject)
    assert [(v.file, v.status) for v in verdicts] == [
        ("water.xyz", "ready"),
        ("broken.cif", "refused"),
    ]
    assert verdicts[0].formula == "H2O" and verdicts[1].problem
    assert not work_once(home)


def test_job_with_an_unknown_data_set_fails_with_the_librarys_message(home: Home) -> None:
    job = JobStore(home).submit(WS, "check", title="c", payload={"dataset": "gone"}, subject="gone")
    work_once(home)
    failed = state_of(home, job)
    assert failed.state == "failed"
    assert failed.error.startswith("This workspace has no such data set.")


def test_job_with_an_unforeseen_error_fails_without_a_traceback(home: Home) -> None:
    job = JobStore(home).submit(WS, "check", title="c", payload={}, subject="x")
    work_once(home)
    failed = state_of(home, job)
    assert failed.state == "failed"
    assert "KeyError: 'dataset'" in failed.error and "Traceback" not in failed.error


def test_progress_writes_at_most_two_events_a_second(home: Home) -> None:
    store = JobStore(home)
    job = submit_check(home, [])
    progress = JobProgress(store, job.id)
    started = time.monotonic()
    while time.monotonic() - started < 1.2:
        progress(Update("sampling", 1, 10))
    progress.flush()
    assert 2 <= len(store.events(job.id, last=100)) <= 4  # at 0, 0.5 and 1.0 s, and the flush


def test_progress_raises_cancelled_after_a_request(home: Home) -> None:
    store = JobStore(home)
    job = submit_check(home, [])
    store.claim("w")
    progress = JobProgress(store, job.id)
    progress(Update("sampling"))
    store.request_cancel(WS, job.id)
    time.sleep(0.3)
    with pytest.raises(Cancelled):
        progress(Update("sampling"))


def test_worker_runs_a_job_in_a_separate_process(home: Home, serving: Worker) -> None:
    job = submit_check(home, [("water.xyz", WATER)])
    wait_for(lambda: not state_of(home, job).active)
    assert state_of(home, job).state == "finished"
    assert lock.worker_status(serving.store.database).alive


def test_worker_ends_a_job_process_that_does_not_react(home: Home, serving: Worker) -> None:
    job = submit_check(home, [("water.xyz", WATER)])
    wait_for(lambda: state_of(home, job).state == "running")
    JobStore(home).request_cancel(
        WS, job.id
    )  # the child is still importing, so only a signal can end it
    wait_for(lambda: not state_of(home, job).active)
    assert state_of(home, job).state == "cancelled"


def test_refused_worker_does_not_call_begin(home: Home, serving: Worker) -> None:
    wait_for(lambda: lock.worker_status(serving.store.database).alive)
    begin_calls: list[Home] = []
    with pytest.raises(BandgapError, match=r"Another worker serves .* already\. Use that one"):
        Worker(home).serve(begin=begin_calls.append)
    assert not begin_calls


def test_worker_that_stops_marks_its_job_interrupted(home: Home) -> None:
    job = submit_check(home, [("water.xyz", WATER)])
    Worker(home).serve(until=lambda: state_of(home, job).state == "running")
    ended = state_of(home, job)
    assert ended.state == "interrupted"
    assert ended.error == "The worker was stopped while this job was running."


def test_two_jobs_of_a_lane_run_side_by_side_and_a_third_waits(home: Home) -> None:
    files = [(f"water-{k}.xyz", WATER + b" " * k) for k in range(100)]
    jobs = [submit_check(home, files) for _ in range(3)]
    states_at_once: set[tuple[str, ...]] = set()

    def all_ended() -> bool:
        states = tuple(state_of(home, job).state for job in jobs)
        states_at_once.add(states)
        return not {"queued", "running"} & {*states}

    Worker(home, places=2).serve(until=all_ended)
    assert ("running", "running", "queued") in states_at_once
    assert ("running",) * 3 not in states_at_once
    assert {state_of(home, job).state for job in jobs} == {"finished"}


def test_share_of_a_place_is_some_cores_and_some_memory() -> None:
    code = (
        "import os\n"
        "from bandgap.foundation.machine import cores, limit_cores, limit_memory, usable_bytes\n"
        "all_cores, all_bytes = cores(), usable_bytes()\n"
        "limit_cores(1, 2)\n"
        "limit_memory(2**62, share=0.5)\n"
        "print(cores() == max(all_cores // 2, 1), usable_bytes() == all_bytes // 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_half_unpacked_run_of_a_killed_process_counts_and_goes_at_once(
    home: Home, serving: Worker
) -> None:
    store = JobStore(home)
    run = str(uuid.uuid4())
    folder = home.run_folder(run)
    folder.mkdir(parents=True)
    (folder / "draws.safetensors").write_bytes(bytes(70_000))
    job = store.submit(WS, "add_run", title="add", payload={"run": run, "name": "r"}, subject=run)
    wait_for(lambda: bool(serving._processes))
    (process,) = (running.process for running in serving._processes.values())
    assert workspace_usage(Library(home), WS).runs >= 70_000
    os.kill(process.pid or 0, signal.SIGKILL)
    wait_for(lambda: not state_of(home, job).active)
    assert "exit code -9" in state_of(home, job).error
    wait_for(lambda: not folder.exists())


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_killed_worker_leaves_no_job_process_and_the_next_marks_the_job(home: Home) -> None:
    environment = {**os.environ, "BANDGAP_HOME": str(home.folder)}
    files = [
        (f"water-{k}.xyz", WATER + b" " * k) for k in range(400)
    ]  # long enough to be killed in the middle
    job = submit_check(home, files)
    first = subprocess.Popen([sys.executable, "-m", "bandgap.jobs.worker"], env=environment)
    wait_for(lambda: state_of(home, job).state == "running")
    first.send_signal(signal.SIGKILL)
    first.wait()
    Worker(home).serve(until=lambda: True)
    assert state_of(home, job).state == "interrupted"
    assert not lock.worker_status(JobStore(home).database).alive


def test_job_beyond_the_time_of_its_kind_is_ended(
    home: Home, serving: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "limits_of", lambda kind: JobLimits(0.0, 0))
    job = submit_check(home, [("water.xyz", WATER)])
    wait_for(lambda: state_of(home, job).state == "failed")
    assert "longer than 0 minutes, the limit of its kind" in state_of(home, job).error
