"""The machine: torch's device, threads and cores, the most memory that a process held, and loops that numba compiles.

Loads torch and numba only where they are needed: pages ask for memory too.

torch with as many threads as there are cores runs 8 to 20 times slower than with one thread as soon as a second process
is busy (measured on 2 cores: 2.7 ms against 21 ms for one gradient). So every process of this package uses ONE torch
thread, and parallel work is a map over independent items (chains, descriptors) instead. `BANDGAP_THREADS` overrides it.
The same holds for numpy's matrix products (on 2 busy cores 0.3 s against 10 s for a Gaussian process of 250 rows).

Loops are compiled for what no library's matrix product does: many small operations on numbers at hand. The compiled
code is kept beside the source, or in the user's cache folder where that is read-only; where neither can be written,
every process compiles it again (a few seconds).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")
T = TypeVar("T")
# Sums may be reordered, so that they run in vector registers. Infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz"}
_STATUS = Path("/proc/self/status")


def set_threads(threads: int | None = None) -> int:
    """Set torch's number of threads for this process (default: `BANDGAP_THREADS`, else 1) and return it."""
    import torch

    threads = _wanted_threads() if threads is None else threads
    torch.set_num_threads(threads)
    return threads


def few_blas_threads(threads: int | None = None) -> AbstractContextManager[object]:
    """Return a context in which numpy, scipy and scikit-learn use so many threads (as in `set_threads`).

    The limit holds from this call on, and until the context is left.
    """
    threads = _wanted_threads() if threads is None else threads
    limits: AbstractContextManager[object] = threadpool_limits(limits=threads)
    return limits


def with_own_threads(function: Callable[..., T], *arguments: Any) -> T:
    """Return `function(*arguments)`, computed in a process of its own with as many threads as one has here.

    With others, sums are rounded in another way.
    """
    set_threads()
    with few_blas_threads():
        return function(*arguments)


def _wanted_threads() -> int:
    text = os.environ.get("BANDGAP_THREADS", "1")
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(
            f"BANDGAP_THREADS is {text!r}. Accepted: a whole number from 1. Unset it to use 1."
        )
    return int(text)


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(name: str = "auto") -> torch.device:
    """Return the torch device for `auto`, `cpu` or `cuda`; `auto` is CUDA where there is one.

    Raises ConfigError for another name, and for `cuda` on a machine without it.
    """
    import torch

    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device is {name!r}. Accepted: auto, cpu, cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device is 'cuda', but torch finds no CUDA device here. Use --device cpu or auto."
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def peak_memory_bytes() -> dict[str, int | None]:
    """Return the peak of the process's resident memory and of torch's memory on a GPU; None where it is not known.

    Linux keeps the peak of this program as VmHWM; what getrusage says there may be that of the process that started it.
    """
    return {"process": _process_bytes(), "gpu": _gpu_bytes()}


def _process_bytes() -> int | None:
    try:
        line = next(
            row
            for row in _STATUS.read_text(encoding="ascii").splitlines()
            if row.startswith("VmHWM:")
        )
        return 1024 * int(line.split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return _usage_bytes()


def _usage_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, the others kB


def _gpu_bytes() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.max_memory_allocated())


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, to be compiled at its first call with arguments of a kind; x / 0 is infinite, as in numpy.

    What is kept is compiled again when the function's own file changes: constants that it reads belong there.
    """
    from numba import njit

    try:
        result: Callable[P, T] = njit(fastmath=FAST, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the compiled code
        result = njit(fastmath=FAST, error_model="numpy")(function)
    return result
