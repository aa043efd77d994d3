"""The worker: claims jobs, runs each in one spawned child, renews heartbeats, ends what is cancelled or too long.

Run by `python -m bandgap.jobs.worker` or `bandgap worker`. Short jobs (check, predict) have a lane of their own and
do not wait for a training. One worker serves a data directory.
"""

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
from bandgap.jobs.heartbeats import ClockWatch
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.housekeeping import drop_left_sources, drop_unfinished_writes, drop_unused_uploads
from bandgap.jobs.job_process import child_main, run_job
from bandgap.jobs.library import Library
from bandgap.jobs.other_machines import wait_for_other_machines
from bandgap.jobs.store import Ending, Job, JobStore, Lane
from bandgap.jobs.workspaces import drop_unused_workspaces

log = logging.getLogger(__name__)

POLL_S = 0.3
BEAT_S = 2.0
CHECKPOINTS_KEPT_S = 14 * 86400.0  # of jobs that were interrupted and not started again
LANES: tuple[Lane, ...] = ("short", "long")
TIME_LIMITS_S = {
    "check": 1800.0,
    "import_demo": 1800.0,
    "import_folder": 1800.0,
    "shapes": 1800.0,
    "add_source": 1800.0,
}  # reading files must end; training may take as long as it takes


@dataclass(frozen=True)
class Timing:
    """Waiting times in seconds.

    A cancelled job's process is terminated after `cancel_grace_s`, and killed `kill_grace_s` later.
    The process of a job that has ended is killed after `exit_grace_s`; all that it does is to exit.
    """

    cancel_grace_s: float = 8.0
    kill_grace_s: float = 4.0
    exit_grace_s: float = 0.5


@dataclass
class _Child:
    job: Job
    process: SpawnProcess
    started: float  # monotonic time, as those below
    ended: float | None = None  # when the job's final state was seen
    asked_to_end: float | None = None  # when the request for the end was seen
    terminated: float | None = None
    error: str = ""


class Worker:
    """Serves one data directory until `stop()` is called."""

    def __init__(self, home: Home, *, timing: Timing | None = None) -> None:
        self.store = JobStore(home)
        self.name = str(uuid.uuid4())
        self._home = home
        self._timing = timing or Timing()
        self._children: dict[Lane, _Child] = {}
        self._stopping = False
        self._beat = -math.inf  # monotonic time
        self._clock = ClockWatch()

    def stop(self) -> None:
        """Ask the loop to end; running jobs are ended and marked interrupted."""
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
        wait_for_other_machines(
            self._home, self.store.database, stopped=lambda: self._stopping or until()
        )
        if not lock.acquire(self.store.database, self.name):
            raise BandgapError(
                f"Another worker serves {self._home.folder} already. "
                "Use that one, or set BANDGAP_HOME to another folder."
            )
        try:
            if begin is not None:
                begin(self._home)
            self.store.end_orphans(self.name)
            self._home.drop_checkpoints(older_than_s=CHECKPOINTS_KEPT_S)
            drop_unused_uploads(Library(self._home))
            drop_left_sources(Library(self._home))
            drop_unused_workspaces(Library(self._home))
            drop_unfinished_writes(self._home)
            while not self._stopping and not until():
                self._step()
                time.sleep(POLL_S)
        finally:
            self._end_all()
            lock.release(self.store.database, self.name)

    def _step(self) -> None:
        clock_step = self._clock.step()
        if clock_step or time.monotonic() - self._beat > BEAT_S:
            self._beat = time.monotonic()
            jobs = [child.job.id for child in self._children.values()]
            self.store.beat(self.name, jobs, clock_step=clock_step)
            if not lock.holds(
                self.store.database, self.name
            ):  # this process slept, and another worker took over
                log.warning("another worker took over %s; ending", self._home.folder)
                self._stopping = True
                return
        for lane, child in list(self._children.items()):
            self._watch(lane, child)
        for lane in LANES:
            if lane not in self._children and (job := self.store.claim(self.name, lanes=[lane])):
                process = _spawned(child_main, str(self._home.folder), job.id)
                self._children[lane] = _Child(job, process, time.monotonic())

    def _watch(self, lane: Lane, child: _Child) -> None:
        if not child.process.is_alive():
            self._reap(child)
            del self._children[lane]
            return
        now = time.monotonic()
        limit = TIME_LIMITS_S.get(child.job.kind)
        if child.ended is not None:
            if now - child.ended > self._timing.exit_grace_s:
                _signal(
                    child.process, signal.SIGKILL
                )  # what it waits for must not hold up the next job
        elif self.store.has_ended(child.job.id):
            child.ended = now
        elif child.asked_to_end is None:
            if self.store.cancel_requested(child.job.id):
                child.asked_to_end = now
            elif limit is not None and now - child.started > limit:
                child.error = f"Reading these files took longer than {limit / 60:.0f} minutes. Upload them in smaller parts."
                child.asked_to_end = now - self._timing.cancel_grace_s
        elif child.terminated is None and now - child.asked_to_end > self._timing.cancel_grace_s:
            _signal(child.process, signal.SIGTERM)
            child.terminated = now
        elif child.terminated is not None and now - child.terminated > self._timing.kill_grace_s:
            _signal(child.process, signal.SIGKILL)

    def _reap(self, child: _Child) -> None:
        child.process.join()
        _signal(child.process, signal.SIGKILL)  # what the job itself started and left behind
        if child.error:
            self.store.end(child.job.id, "failed", error=child.error)
        elif self.store.cancel_requested(child.job.id):
            self.store.end(child.job.id, "cancelled")
        else:
            code = child.process.exitcode
            reason = (
                " It was probably stopped by the system because memory ran out."
                if code == -signal.SIGKILL
                else ""
            )
            self.store.end(
                child.job.id,
                "failed",
                error=f"The computing process ended unexpectedly (exit code {code}).{reason}",
            )

    def _end_all(self) -> None:
        for child in self._children.values():
            _signal(child.process, signal.SIGTERM)
        for child in self._children.values():
            child.process.join(self._timing.kill_grace_s)
            _signal(child.process, signal.SIGKILL)
            child.process.join()
            ended: Ending = (
                "cancelled" if self.store.cancel_requested(child.job.id) else "interrupted"
            )
            self.store.end(
                child.job.id,
                ended,
                error=""
                if ended == "cancelled"
                else "The worker was stopped while this job was running.",
            )
        self._children.clear()


def work_once(home: Home) -> bool:
    """Claim one job and do it in this process; return whether there was one. For tests and notebooks."""
    store = JobStore(home)
    job = store.claim(f"once-{os.getpid()}")
    if job is None:
        return False
    run_job(store, job)
    return True


def work_all(home: Home) -> int:
    """Do every queued job in this process and return how many there were."""
    count = 0
    while work_once(home):
        count += 1
    return count


def main() -> int:
    """Run the worker on the default data directory until SIGINT or SIGTERM; return the exit code."""
    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # see bandgap.foundation.machine for the measurement behind this
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        engine_in_use()  # says at once what is wrong with BANDGAP_ENGINE
        worker = Worker(open_home())
        _stop_on_signals(worker)
        worker.serve(begin=_start_catalogue)
    except BandgapError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _stop_on_signals(worker: Worker) -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        worker.stop()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handle)


def _spawned(target: Callable[..., None], *args: str, daemon: bool = False) -> SpawnProcess:
    process = multiprocessing.get_context("spawn").Process(target=target, args=args, daemon=daemon)
    process.start()
    return process


def _start_catalogue(home: Home) -> None:
    from bandgap.jobs.catalogue import catalogue_main

    _spawned(catalogue_main, str(home.folder), daemon=True)


def _signal(process: SpawnProcess, number: signal.Signals) -> None:
    """Send a signal to the child's whole process group, as a job may have processes of its own."""
    if process.pid is None:
        return
    try:
        if os.name == "posix" and process.pid != os.getpgrp():
            os.killpg(process.pid, number)
        elif process.is_alive():
            process.terminate()
    except ProcessLookupError:
        if process.is_alive():
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
