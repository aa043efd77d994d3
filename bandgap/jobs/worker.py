"""The worker: claims jobs, runs each in a spawned process, and renews heartbeats.

It ends jobs that are cancelled or take too long. Run by `python -m bandgap.jobs.worker` or
`bandgap worker`. Short jobs (check, predict) have a separate lane and do not wait for a training.
One worker serves a data directory; it runs several jobs of each lane side by side if told to,
each with its share of cores and memory.
"""

import itertools
import logging
import math
import multiprocessing
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from types import FrameType

from bandgap.foundation.engines import engine_in_use
from bandgap.foundation.errors import BandgapError
from bandgap.jobs import lock
from bandgap.jobs.database import StoreError
from bandgap.jobs.deletions import drop_old_deletions
from bandgap.jobs.heartbeats import ClockWatch
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.housekeeping import (
    drop_unfinished_results,
    drop_unfinished_writes,
    drop_unused_uploads,
)
from bandgap.jobs.job_process import job_main, limits_of, run_job
from bandgap.jobs.kinds import Lane
from bandgap.jobs.library import Library
from bandgap.jobs.queueing import estimate_waiting
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.workspaces import drop_unused_workspaces

log = logging.getLogger(__name__)

KILL = 9  # SIGKILL, a name that Windows lacks
POLL_S = 0.3
BEAT_S = 2.0
TAKEOVER_S = 6.0  # in which the worker of a dashboard that was killed ends its jobs
PURGE_S = 3600.0  # between two looks for what was kept for too long
CHECKPOINTS_KEPT_S = 14 * 86400.0  # of jobs that were interrupted and not started again
LANES: tuple[Lane, ...] = ("short", "long")


@dataclass(frozen=True)
class Timing:
    """Waiting times in seconds.

    The process of a cancelled job is terminated after `cancel_grace_s`, and killed `kill_grace_s`
    later. The process of a job that has ended has only to exit; it is killed after `exit_grace_s`.
    """

    cancel_grace_s: float = 8.0
    kill_grace_s: float = 4.0
    exit_grace_s: float = 0.5


@dataclass
class _JobProcess:
    job: Job
    process: SpawnProcess
    start: float  # monotonic time, as those below
    end: float | None = None  # when the job's final state was noticed
    cancel_request: float | None = None  # when the request to cancel was noticed
    termination: float | None = None
    error: str = ""


class Worker:
    """Serves one data directory until `stop()` is called, with `places` jobs of each lane."""

    def __init__(self, home: Home, *, timing: Timing | None = None, places: int = 1) -> None:
        self.store = JobStore(home)
        self._library = Library(home)
        self.name = str(uuid.uuid4())
        self._home = home
        self._timing = timing or Timing()
        self._places = places
        self._processes: dict[tuple[Lane, int], _JobProcess] = {}
        self._stopping = False
        self._last_beat = -math.inf  # monotonic time
        self._last_purge = -math.inf  # monotonic time
        self._clock = ClockWatch()

    def stop(self) -> None:
        """Stop the loop; running jobs are ended and marked interrupted."""
        self._stopping = True

    def serve(
        self,
        *,
        until: Callable[[], bool] = lambda: False,
        begin: Callable[[Home], None] | None = None,
    ) -> None:
        """Take the lock, call `begin`, then claim and run jobs until stopped.

        Raises BandgapError when another worker serves this data directory, or another machine.
        """
        lock.wait_for_other_machine(
            self._home, self.store.database, stopped=lambda: self._stopping or until()
        )
        deadline = time.monotonic() + TAKEOVER_S
        while not lock.acquire(self.store.database, self.name):
            if time.monotonic() > deadline or self._stopping or until():
                raise BandgapError(
                    f"Another worker serves {self._home.folder} already. "
                    "Use that one, or set BANDGAP_HOME to another folder."
                )
            time.sleep(POLL_S)
        try:
            if begin is not None:
                begin(self._home)
            self.store.end_orphans(self.name)
            self._purge()
            drop_unused_uploads(self._library)
            drop_unfinished_results(self._library)
            drop_unfinished_writes(self._home)
            while not self._stopping and not until():
                self._step()
                time.sleep(POLL_S)
        finally:
            self._end_all()
            lock.release(self.store.database, self.name)

    def _purge(self) -> None:
        """Remove for good what has been in the bin, unfinished or unused for too long."""
        self._last_purge = time.monotonic()
        try:
            self._home.drop_checkpoints(older_than_s=CHECKPOINTS_KEPT_S)
            drop_old_deletions(self._home)
            drop_unused_workspaces(self._library)
        except BandgapError as error:
            log.warning("the bin could not be purged: %s", error)

    def _step(self) -> None:
        clock_step = self._clock.step()
        if clock_step or time.monotonic() - self._last_beat > BEAT_S:
            self._last_beat = time.monotonic()
            jobs = [running.job.id for running in self._processes.values()]
            self.store.beat(self.name, jobs, clock_step=clock_step)
            # where this process was suspended, another worker may have taken the lock
            if not lock.holds(self.store.database, self.name):
                log.warning("another worker took over %s; ending", self._home.folder)
                self._stopping = True
                return
        if time.monotonic() - self._last_purge > PURGE_S:
            self._purge()
        for place, running in list(self._processes.items()):
            self._watch(place, running)
        estimate_waiting(self.store, self._library)
        for place in itertools.product(LANES, range(self._places)):
            lane, k = place
            if place not in self._processes and (job := self.store.claim(self.name, lanes=[lane])):
                process = _spawned(job_main, str(self._home.folder), job.id, k, self._places)
                self._processes[place] = _JobProcess(job, process, time.monotonic())

    def _watch(self, place: tuple[Lane, int], running: _JobProcess) -> None:
        if not running.process.is_alive():
            self._reap(running)
            del self._processes[place]
            return
        now = time.monotonic()
        limit = limits_of(running.job.kind).seconds
        if running.end is not None:
            if now - running.end > self._timing.exit_grace_s:
                # the next job must not wait for whatever keeps this process
                _signal(running.process, KILL)
        elif self.store.has_ended(running.job.id):
            running.end = now
        elif running.cancel_request is None:
            if self.store.cancel_requested(running.job.id):
                running.cancel_request = now
            elif now - running.start > limit:
                running.error = (
                    f"The job took longer than {limit / 60:,.0f} minutes, the limit of its kind. "
                    "Give it fewer structures, or upload files in smaller parts."
                )
                running.cancel_request = now - self._timing.cancel_grace_s
        elif running.termination is None:
            if now - running.cancel_request > self._timing.cancel_grace_s:
                _signal(running.process, signal.SIGTERM)
                running.termination = now
        elif now - running.termination > self._timing.kill_grace_s:
            _signal(running.process, KILL)

    def _reap(self, running: _JobProcess) -> None:
        """Write the final state of a job whose process has ended."""
        running.process.join()
        _signal(running.process, KILL)  # processes that the job started and did not end
        if running.error:
            self.store.end(running.job.id, "failed", error=running.error)
        elif self.store.cancel_requested(running.job.id):
            self.store.end(running.job.id, "cancelled")
        else:
            code = running.process.exitcode
            error = f"The computing process ended unexpectedly (exit code {code})."
            if code in (-KILL, -signal.SIGABRT):
                error += " It was probably stopped because memory ran out."
            self.store.end(running.job.id, "failed", error=error)
        drop_unfinished_results(self._library)

    def _end_all(self) -> None:
        for running in self._processes.values():
            _signal(running.process, signal.SIGTERM)
        for running in self._processes.values():
            running.process.join(self._timing.kill_grace_s)
            _signal(running.process, KILL)
            running.process.join()
            if self.store.cancel_requested(running.job.id):
                self.store.end(running.job.id, "cancelled")
            else:
                error = "The worker was stopped while this job was running."
                self.store.end(running.job.id, "interrupted", error=error)
        self._processes.clear()


def work_once(home: Home) -> bool:
    """Claim one job and run it in this process; return whether there was one.

    For tests and notebooks.
    """
    store = JobStore(home)
    oldest = store.database.row("SELECT lane FROM job WHERE state = 'queued' ORDER BY rowid")
    lanes = [oldest["lane"]] if oldest else []
    if (job := store.claim(f"once-{os.getpid()}", lanes=lanes)) is None:
        return False
    run_job(store, job)
    return True


def work_all(home: Home) -> int:
    """Run every queued job in this process and return how many there were."""
    count = 0
    while work_once(home):
        count += 1
    return count


def main(places: int = 1) -> int:
    """Run the worker on the default data directory until SIGINT or SIGTERM.

    It runs `places` jobs of each lane side by side. Returns the exit code, `lock.REFUSED` where a
    restart would not help.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the reason in bandgap.foundation.machine
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        engine_in_use()  # raises where BANDGAP_ENGINE cannot be used
        worker = Worker(open_home(), places=places)
        _stop_on_signals(worker)
        worker.serve(begin=_start_catalogue)
    except BandgapError as error:
        sys.stderr.write(f"{error}\n")
        return 1 if isinstance(error, StoreError) else lock.REFUSED
    return 0


def _stop_on_signals(worker: Worker) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        worker.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def _spawned(target: Callable[..., None], *args: object, daemon: bool = False) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=daemon)
    process.start()
    return process


def _start_catalogue(home: Home) -> None:
    from bandgap.jobs.catalogue import catalogue_main

    _spawned(catalogue_main, str(home.folder), daemon=True)


def _signal(process: SpawnProcess, number: int) -> None:
    """Send a signal to the whole group of a process, as a job may have started processes."""
    if process.pid is None:
        return
    try:
        if sys.platform != "win32" and process.pid != os.getpgrp():
            os.killpg(process.pid, number)
        elif process.is_alive():
            process.terminate()
    except ProcessLookupError:
        if process.is_alive():
            process.kill()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
