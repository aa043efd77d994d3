"""A map over items in forked processes (Linux): they share what this process has loaded, and start in milliseconds.

A process that is spawned imports torch and loads the model again, seconds of work each; a forked one has both. What a
fork does not take along are threads, so that libraries that compute with several must not have started them.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from bandgap.foundation.errors import BandgapError

T = TypeVar("T")
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


def can_fork() -> bool:
    """Return whether a fork of this process can compute: on Linux, with one thread of torch's and no CUDA."""
    torch = sys.modules.get("torch")
    alone = torch is None or (torch.get_num_threads() == 1 and not torch.cuda.is_initialized())
    return sys.platform == "linux" and alone


def mapped_by_forks(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], *, n_jobs: int, ahead: int
) -> Generator[T, None, None]:
    """Yield `function(*task)` for every task, in their order, by `n_jobs` forks of this process.

    At most `ahead` tasks for every process are out at once; a process that has done its own takes the next at once.
    Raises what `function` raises, and BandgapError where a process is killed.
    """
    out: deque[Future[T]] = deque()
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_follow, initargs=(os.getpid(),))
    try:
        for task in tasks:
            with warnings.catch_warnings():
                # Python 3.12 warns of forks beside threads: here that of the progress bars, which forks never call.
                warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
                out.append(pool.submit(function, *task))
            if len(out) >= n_jobs * ahead:
                yield out.popleft().result()
        while out:
            yield out.popleft().result()
    except BrokenProcessPool as error:
        raise BandgapError(
            "A process that computed was killed, probably as memory ran out. Use fewer jobs, or smaller chunks; the "
            "same command goes on from where it was."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _follow(parent: int) -> None:
    """Leave interrupts to the process that forked this one, and end when it ends, also where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)
