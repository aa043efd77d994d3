"""Work in forked processes (Linux): they share what this process has loaded, and start in milliseconds.

A process that is spawned imports torch and loads the model again, seconds of work each; a forked one has both. What a
fork does not take along are threads, so that libraries that compute with several must not have started them.
"""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
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
    gc.freeze()  # what is there stays: no fork looks through it for garbage, which copies its pages
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(
        n_jobs, mp_context=context, initializer=_follow, initargs=(os.getpid(),)
    )
    try:
        for task in tasks:
            with _quietly():
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
        gc.unfreeze()


class ForkedItems(Iterator[T]):
    """The items that `items()` gives, made by a fork of this process while this one goes on; they must be few bytes.

    Gives them in their order, and raises where they end what `items` raises, and BandgapError where the process is
    killed. The process ends with this object.
    """

    def __init__(self, items: Callable[[], Iterator[T]]) -> None:
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(items, sender, os.getpid()), daemon=True)
        with _quietly():
            process.start()
        sender.close()
        weakref.finalize(self, process.kill)
        self._raised: BaseException | None = None

    def ready(self) -> bool:
        """Whether the next item, or the end, is there already."""
        return self._raised is not None or self._receiver.poll()

    def __next__(self) -> T:
        if self._raised is None:
            try:
                found, error = self._receiver.recv()
            except EOFError:
                error = BandgapError(
                    "A process that read was killed, probably as memory ran out. Try again."
                )
            if error is None:
                item: T = found
                return item
            self._raised = error
        raise self._raised


def _send(items: Callable[[], Iterator[T]], sender: Connection, parent: int) -> None:
    """Send the items, each beside None, and in place of the one after the last what was raised."""
    _follow(parent)
    try:
        for item in items():
            sender.send((item, None))
        sender.send((None, StopIteration()))
    except Exception as error:
        sender.send((None, error))


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Leave out the warning of Python 3.12 of forks beside threads: here of progress bars, which forks never call."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        yield


def _follow(parent: int) -> None:
    """Leave interrupts to the process that forked this one, and end when it ends, also where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)
