"""One job in a separate process: progress becomes events, a cancel request raises `Cancelled`."""

import contextlib
import errno
import faulthandler
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bandgap.foundation.engines import end_pools
from bandgap.foundation.errors import BandgapError, Cancelled
from bandgap.foundation.machine import limit_cores, limit_memory, set_threads
from bandgap.foundation.progress import Update
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import Home, owner_only
from bandgap.jobs.kinds import KINDS
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore

log = logging.getLogger(__name__)

EVENT_S = 0.5  # at most two events a second
LOG_LENGTH = 300  # characters
CANCEL_S = 0.25  # seconds between two looks for a request to cancel
NICENESS = 5  # of a job, so that pages stay quick while every core computes
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class JobLimits:
    """Time in seconds of a job, and memory in bytes of each of its processes."""

    seconds: float
    n_bytes: int


def limits_of(kind: str) -> JobLimits:
    """Return the limits of a job: of reading files, or of computing in its lane."""
    if KINDS[kind].reads_files:
        return JobLimits(1_800.0, 8_000_000_000)
    return JobLimits(86_400.0 * (1 if KINDS[kind].lane == "short" else 14), sys.maxsize)


class JobProgress:
    """The `Progress` of a job: writes at most two events a second.

    Raises `Cancelled` when the user has requested it.
    """

    def __init__(self, store: JobStore, job_id: str) -> None:
        self._store = store
        self._job = job_id
        # monotonic times, as the clock may be set
        self._last_write = -math.inf
        self._last_cancel_check = -math.inf
        self._count_start = time.monotonic()
        self._count_start_done = 0
        self._last: Update | None = None
        self._pending: Update | None = None

    def __call__(self, update: Update, /) -> None:
        """Take an update; raise Cancelled when the user has requested the end of the job."""
        now = time.monotonic()
        if self._last is None or _is_new_count(self._last, update):
            self._count_start = now
            self._count_start_done = update.done
        self._last = update
        self._pending = update
        if now - self._last_write >= EVENT_S:
            self.flush()
        if now - self._last_cancel_check >= CANCEL_S:
            self._last_cancel_check = now
            if self._store.cancel_requested(self._job):
                raise Cancelled("The job was cancelled.")

    def log(self, text: str) -> None:
        """Write a line of the job's log."""
        self._store.add_event(
            self._job, "log", Update("log", message=text[:LOG_LENGTH]), since=time.time()
        )

    def flush(self) -> None:
        """Write the last update if it is not written yet."""
        if self._pending is not None:
            now = time.monotonic()
            self._store.add_event(
                self._job,
                "progress",
                self._pending,
                since=time.time() - (now - self._count_start),
                since_done=self._count_start_done,
            )
            self._last_write = now
            self._pending = None


class _JobLog(logging.Handler):
    """Writes warnings of the library to the job's log, whose last line the dashboard shows."""

    def __init__(self, progress: JobProgress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's text; a store that cannot be written does not end the computation."""
        with contextlib.suppress(BandgapError):
            self._progress.log(record.getMessage())


@contextlib.contextmanager
def _warnings_in_job_log(progress: JobProgress) -> Iterator[None]:
    handler = _JobLog(progress)
    library_logger = logging.getLogger("bandgap")
    library_logger.addHandler(handler)
    try:
        yield
    finally:
        library_logger.removeHandler(handler)


def run_job(store: JobStore, job: Job, *, clean_up: Callable[[], object] = lambda: None) -> None:
    """Run a claimed job and write its final state; an error becomes the job's error text.

    `clean_up` is called after the work, also where it failed, and before the state is written.
    """
    from bandgap.jobs.tasks import TASKS
    from bandgap.jobs.tasks.records import Work

    progress = JobProgress(store, job.id)
    try:
        if not KINDS[job.kind].reads_files:
            set_threads()
        with _warnings_in_job_log(progress), owner_only():
            if KINDS[job.kind].fills_disk:
                check_quota(Library(store.home), job.workspace)
            try:
                result = TASKS[job.kind](Work(job, store.home, progress))
            finally:
                clean_up()
    except Cancelled:
        store.end(job.id, "cancelled")
    except BandgapError as error:
        store.end(job.id, "failed", error=str(error))
    except Exception as error:
        log.exception("job %s (%s) failed", job.id, job.kind)
        store.end(job.id, "failed", error=_unexpected(job, error))
    else:
        progress.flush()
        store.end(job.id, "finished", result=result)


def job_main(folder: str, job_id: str, place: int, places: int) -> None:
    """Run a job; the entry of its spawned process. Processes that the job has started are ended.

    With `places` jobs side by side it takes its share of cores and memory.
    """
    set_up_process()
    if sys.platform != "win32":
        os.nice(NICENESS)
    store = JobStore(Home(Path(folder)))
    job = store.claimed(job_id)
    if job is not None and job.active:
        limit_cores(place, places)
        limit_memory(limits_of(job.kind).n_bytes, share=1 / places)
        run_job(store, job, clean_up=end_pools)


def set_up_process() -> None:
    """Prepare this process, which the worker has spawned.

    It and the processes that it starts end with the worker, whatever ends the worker. On POSIX,
    SIGUSR1 writes the stacks of all its threads to stderr, which is the worker's log.
    """
    if sys.platform != "win32":
        os.setpgid(0, 0)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    # Ctrl-C reaches the worker, which ends its job processes in order
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _is_new_count(previous: Update, update: Update) -> bool:
    """Return whether a new count begins.

    Phases may alternate within one count, as chains pass from warm-up to sampling.
    """
    return (
        update.total != previous.total
        or update.done < previous.done
        or (update.total is None and update.phase != previous.phase)
    )


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _unexpected(job: Job, error: Exception) -> str:
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # of numpy, of torch
        return (
            "The computation ran out of memory. Use fewer structures or a smaller descriptor, and "
            "start again."
        )
    if (
        getattr(error, "errno", None) in _DISK_FULL
        or "os error 28" in str(error)
        or "StorageFull" in str(error)
    ):
        return (
            "The disk of the server is full. What was stored before is safe, checkpoints of a "
            "sampler included: free some disk space, then resume or start again."
        )
    detail = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return (
        f"The job ended with an error that bandgap does not know ({detail}). "
        f"The worker's log has the details; please report them with job {job.id[:8]}."
    )
