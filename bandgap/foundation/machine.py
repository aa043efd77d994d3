"""The machine: torch's device, threads and cores, peak memory, and loops compiled by numba.

Imports torch and numba only where they are needed, because the dashboard uses this module too.

Every process of this package uses ONE thread of torch and of numpy's matrix products, and work is
parallel over independent items (chains, descriptors). With as many threads as cores, torch is 8 to
20 times slower as soon as a second process is busy (2 cores). `BANDGAP_THREADS` overrides it.

Compiled loops replace many small operations on scalars, for which no library has a matrix product.
The compiled code is cached next to the source, or in the user's cache folder if that is read-only.
If neither can be written, every process compiles it again (a few seconds).
"""

from __future__ import annotations

import contextlib
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
# Sums may be reordered, so that they use vector registers. Infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz"}
MEMORY_SHARE = 0.9
_STATUS = Path("/proc/self/status")


def set_threads(threads: int | None = None) -> int:
    """Set torch's number of threads for this process and return it.

    The default is `BANDGAP_THREADS`, or 1 if that is not set. Torch is not imported for it, and
    reads the environment when it is.
    """
    threads = _wanted_threads() if threads is None else threads
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    else:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    return threads


def few_blas_threads(threads: int | None = None) -> AbstractContextManager[object]:
    """Return a context in which numpy, scipy and scikit-learn use this number of threads.

    The default is that of `set_threads`. The limit applies from this call until the context ends.
    """
    threads = _wanted_threads() if threads is None else threads
    limits: AbstractContextManager[object] = threadpool_limits(limits=threads)
    return limits


def with_own_threads(function: Callable[..., T], *arguments: Any) -> T:
    """Return `function(*arguments)` with the number of threads of `set_threads`, in a new process.

    The rounding of sums depends on the number of threads.
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


def limit_cores(k: int, n: int) -> None:
    """Let this process, and those that it starts, use every n-th core from the k-th (Linux)."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[k::n] or allowed)


def choose_device(name: str = "auto") -> torch.device:
    """Return the torch device for `auto`, `cpu` or `cuda`; `auto` is CUDA if there is a device.

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
    """Return the peak of the process's resident memory and of torch's memory on a GPU.

    They are None if unknown. Linux has the peak of this program as VmHWM; the value of getrusage
    may be that of the process that started it.
    """
    return {"process": _process_bytes(), "gpu": _gpu_bytes()}


def data_bytes() -> int | None:
    """Return the memory of this process that `limit_memory` limits, None if unknown."""
    return _status_bytes("VmData:")


def usable_bytes() -> int | None:
    """Return the memory that this process may take, None if unknown.

    It is `MEMORY_SHARE` of the machine's, or the lower one of `limit_memory` (Linux).
    """
    if sys.platform != "linux":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return min(_machine_bytes(), sys.maxsize if limit == resource.RLIM_INFINITY else limit)


def limit_memory(n_bytes: int, *, share: float = 1.0) -> None:
    """Refuse this process, and processes that it starts, more memory than this (Linux).

    The limit is at most this share of `MEMORY_SHARE` of the machine's.
    """
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError, OSError):  # a lower limit is kept
        most = min(n_bytes, int(share * _machine_bytes()))
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _machine_bytes() -> int:
    return int(MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _process_bytes() -> int | None:
    peak = _status_bytes("VmHWM:")
    return _usage_bytes() if peak is None else peak


def _status_bytes(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
        line = next(line for line in lines if line.startswith(name))
        return 1024 * int(line.split()[1])
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _usage_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # macOS counts bytes, others kB


def _gpu_bytes() -> int | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.max_memory_allocated())


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, compiled at its first call with each type of arguments.

    x / 0 is infinite, as in numpy. The cached code is compiled again when the function's file
    changes, so that constants that it reads belong in the same file.
    """
    from numba import njit

    try:
        result: Callable[P, T] = njit(fastmath=FAST, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the compiled code
        result = njit(fastmath=FAST, error_model="numpy")(function)
    return result
