"""The one place that chooses the device and the number of threads for torch.

torch with as many threads as there are cores runs 8 to 20 times slower than with one thread as soon as a second process
is busy (measured on 2 cores: 2.7 ms against 21 ms for one gradient). So every process of this package uses ONE torch
thread, and parallel work is a map over independent items (chains, descriptors) instead. `BANDGAP_THREADS` overrides it.
The same holds for numpy's matrix products (on 2 busy cores 0.3 s against 10 s for a Gaussian process of 250 rows).
"""

import os
from contextlib import AbstractContextManager
from typing import Literal

import torch
from threadpoolctl import threadpool_limits

from bandgap.errors import ConfigError

DeviceName = Literal["auto", "cpu", "cuda"]


def set_threads(threads: int | None = None) -> int:
    """Set torch's number of threads for this process (default: `BANDGAP_THREADS`, else 1) and return it."""
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


def _wanted_threads() -> int:
    text = os.environ.get("BANDGAP_THREADS", "1")
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"BANDGAP_THREADS is {text!r}. Accepted: a whole number from 1. Unset it to use 1.")
    return int(text)


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def choose_device(name: str = "auto") -> torch.device:
    """Return the torch device for `auto`, `cpu` or `cuda`; `auto` is CUDA where there is one.

    Raises ConfigError for another name, and for `cuda` on a machine without it.
    """
    if name not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device is {name!r}. Accepted: auto, cpu, cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is 'cuda', but torch finds no CUDA device here. Use --device cpu or auto.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
