"""Work in forked processes (Linux), which share the loaded modules and start in milliseconds.

A spawned process imports torch and loads the model again, which takes seconds; a forked process has
both. A fork does not copy threads, so that libraries that compute with several threads must not
have started them.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from typing import Any, TypeVar

from bandgap.foundation.errors import BandgapError

T = TypeVar("T")
Task = tuple[Any, ...]
# PR_SET_PDEATHSIG of Linux's prctl.
_SET_DEATH_SIGNAL = 1


def can_fork() -> bool:
    """Return whether a fork of this process can compute.

    It can on Linux, with one thread of torch and without CUDA.
    """
    torch = sys.modules.get("torch")
    is_safe = torch is None or (torch.get_num_threads() == 1 and not torch.cuda.is_initialized())
    return sys.platform == "linux" and is_safe


def mapped_by_forks(
    function: Callable[..., T], tasks: Iterable[Task], *, n_jobs: int, ahead: int
) -> Generator[T, None, None]:
    """Yield `function(*task)` for every task in order, computed by forks of this process.

    Parameters
    ----------
    function
        The function.
    tasks
        Its arguments for each call.
    n_jobs
        Number of forks.
    ahead
        Largest number of submitted tasks for each fork.

    Raises
    ------
    BandgapError
        As `repeating_lost_tasks`; besides what `function` raises.
    """

    def by_pool(tasks: Iterable[Task]) -> Generator[T, None, None]:
        submitted: deque[Future[T]] = deque()
        # The forks' garbage collectors skip existing objects, whose pages they would copy.
        gc.freeze()
        context = multiprocessing.get_context("fork")
        pool = ProcessPoolExecutor(
            n_jobs, mp_context=context, initializer=_follow, initargs=(os.getpid(),)
        )
        try:
            for task in tasks:
                with _without_fork_warning():
                    submitted.append(pool.submit(function, *task))
                if len(submitted) >= n_jobs * ahead:
                    yield submitted.popleft().result()
            while submitted:
                yield submitted.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            gc.unfreeze()

    return repeating_lost_tasks(by_pool, tasks)


def repeating_lost_tasks(
    map_function: Callable[[Iterable[Task]], Generator[T, None, None]], tasks: Iterable[Task]
) -> Generator[T, None, None]:
    """Yield the results of a map, in order; where a process is killed, the map starts again with
    the tasks whose results are missing.

    Raises BandgapError if a process is killed twice before the first of these tasks is done.
    """
    unfinished: deque[Task] = deque()

    def noted_tasks() -> Iterator[Task]:
        for task in tasks:
            unfinished.append(task)
            yield task

    remaining_tasks: Iterator[Task] = noted_tasks()
    lost_task = None
    while True:
        try:
            for result in map_function(remaining_tasks):
                unfinished.popleft()
                yield result
            return
        except BrokenProcessPool as error:
            if unfinished[0] is lost_task:
                raise BandgapError(
                    "A process that computed was killed twice, probably as memory ran out. Use "
                    "fewer jobs, or smaller chunks; the same command resumes where it stopped."
                ) from error
            lost_task = unfinished[0]
            remaining_tasks = chain(tuple(unfinished), remaining_tasks)


@contextlib.contextmanager
def _without_fork_warning() -> Iterator[None]:
    """Hide the warning of Python 3.12 about forks with threads: forks do not use these threads."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        yield


def _follow(parent: int) -> None:
    """Ignore interrupts, which the parent process handles, and end when it ends or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":  # `can_fork`
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # the parent process has ended before
        os._exit(1)
