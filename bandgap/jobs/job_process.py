"""One job in a process of its own: progress becomes events, a request for the end becomes `Cancelled`."""

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
from pathlib import Path

from bandgap.foundation.engines import end_pools
from bandgap.foundation.errors import BandgapError, Cancelled
from bandgap.foundation.progress import Update
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import Home, owner_only
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore

log = logging.getLogger(__name__)

EVENT_S = 0.5  # at most two events a second
LOG_LENGTH = 300
GROWING = (
    "transfer",
    "predict",
    "train_source",
)  # jobs that write much; a workspace at its quota starts none
CANCEL_S = 0.25  # how often the request for the end is looked up
_FULL = (errno.ENOSPC, errno.EDQUOT)
NICENESS = 5  # of a job, so that pages stay quick while every core computes


class JobProgress:
    """The `Progress` of a job: writes at most two events a second and raises `Cancelled` when the end was asked for."""

    def __init__(self, store: JobStore, job_id: str) -> None:
        self._store = store
        self._job = job_id
        self._written = self._looked = -math.inf  # monotonic times, as the clock may be set
        self._since, self._since_done = time.monotonic(), 0
        self._last: Update | None = None
        self._pending: Update | None = None

    def __call__(self, update: Update, /) -> None:
        """Take an update; raise Cancelled when the person asked for the end of the job."""
        now = time.monotonic()
        if self._last is None or _counts_anew(self._last, update):
            self._since, self._since_done = now, update.done
        self._pending = self._last = update
        if now - self._written >= EVENT_S:
            self.flush()
        if now - self._looked >= CANCEL_S:
            self._looked = now
            if self._store.cancel_requested(self._job):
                raise Cancelled("The job was cancelled.")

    def log(self, text: str) -> None:
        """Write a line of the job's log."""
        self._store.add_event(
            self._job, "log", Update("log", message=text[:LOG_LENGTH]), since=time.time()
        )

    def flush(self) -> None:
        """Write the last update if it was held back."""
        if self._pending is not None:
            now = time.monotonic()
            since = time.time() - (now - self._since)
            self._store.add_event(
                self._job, "progress", self._pending, since=since, since_done=self._since_done
            )
            self._written, self._pending = now, None


class _JobLog(logging.Handler):
    """Passes what the library warns of on to the log of the job, where its panel shows the last line."""

    def __init__(self, progress: JobProgress) -> None:
        super().__init__(logging.WARNING)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record's text; a store that cannot be written must not end the computation."""
        with contextlib.suppress(BandgapError):
            self._progress.log(record.getMessage())


@contextlib.contextmanager
def _logged(progress: JobProgress) -> Iterator[None]:
    handler, library = _JobLog(progress), logging.getLogger("bandgap")
    library.addHandler(handler)
    try:
        yield
    finally:
        library.removeHandler(handler)


def run_job(store: JobStore, job: Job, *, clean_up: Callable[[], object] = lambda: None) -> None:
    """Do the work of a claimed job and write its final state; errors of the library become the job's error text.

    `clean_up` is called after the work, also after one that failed, and before the state is written.
    """
    from bandgap.jobs.tasks import TASKS

    progress = JobProgress(store, job.id)
    try:
        if job.kind in GROWING:
            check_quota(Library(store.home), job.workspace)
        with _logged(progress), owner_only():
            try:
                result = TASKS[job.kind](job, store.home, progress)
            finally:
                clean_up()
    except Cancelled:
        store.end(job.id, "cancelled")
    except BandgapError as error:
        store.end(job.id, "failed", error=str(error))
    except MemoryError:
        store.end(
            job.id,
            "failed",
            error="The computation ran out of memory. Use fewer structures or a smaller descriptor, and start again.",
        )
    except Exception as error:
        log.exception("job %s (%s) failed", job.id, job.kind)
        store.end(job.id, "failed", error=_unexpected(job, error))
    else:
        progress.flush()
        store.end(job.id, "finished", result=result)


def child_main(folder: str, job_id: str) -> None:
    """Run a job as the spawned process of it, and end the processes that the job has started."""
    set_up_process()
    if os.name == "posix":
        os.nice(NICENESS)
    store = JobStore(Home(Path(folder)))
    job = store.claimed(job_id)
    if job is not None and job.active:
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


def _counts_anew(before: Update, now: Update) -> bool:
    """Return whether a new count began. Phases may alternate within one, as chains pass from warm-up to sampling."""
    return (
        now.total != before.total
        or now.done < before.done
        or (now.total is None and now.phase != before.phase)
    )


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if os.name == "posix":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _unexpected(job: Job, error: Exception) -> str:
    if (
        getattr(error, "errno", None) in _FULL
        or "os error 28" in str(error)
        or "StorageFull" in str(error)
    ):
        return (
            "The disk of the server is full. What was stored before is safe, checkpoints of a sampler included: free "
            "some disk space, then go on or start again."
        )
    detail = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return (
        f"The job ended with an error that bandgap does not know ({detail}). "
        f"The worker's log has the details; please report them with job {job.id[:8]}."
    )
