"""The one place that chooses the device and the number of threads for torch.

torch with as many threads as there are cores runs 8 to 20 times slower than with one thread as soon as a second process
is busy (measured on 2 cores: 2.7 ms against 21 ms for one gradient). So every process of this package uses ONE torch
thread, and parallel work is a map over independent items (chains, descriptors) instead. `BANDGAP_THREADS` overrides it.
"""

import os
from typing import Literal

import torch

from bandgap.errors import ConfigError

DeviceName = Literal["auto", "cpu", "cuda"]


def set_threads(threads: int | None = None) -> int:
    """Set torch's number of threads for this process (default: `BANDGAP_THREADS`, else 1) and return it."""
    text = os.environ.get("BANDGAP_THREADS", "1")
    if threads is None:
        if not text.isdigit() or int(text) < 1:
            raise ConfigError(f"BANDGAP_THREADS is {text!r}. Accepted: a whole number from 1. Unset it to use 1.")
        threads = int(text)
    torch.set_num_threads(threads)
    return threads


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
