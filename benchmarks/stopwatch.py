"""Time and peak memory of a computation."""

import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def timed(work: Callable[[], T], *, device: torch.device) -> tuple[T, float]:
    """Return the result of `work` and its seconds: CPU time, or wall-clock time on CUDA.

    CPU time is that of this process. It hardly depends on the load of the machine.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        started = time.perf_counter()
        result = work()
        torch.cuda.synchronize(device)
        return result, time.perf_counter() - started
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def peak_memory_MB(work: Callable[..., object], *arguments: Any) -> float:
    """Return the peak memory of `work(*arguments)` in a new process, in MB (10^6 bytes).

    The memory at the start of the process is subtracted. The peak is VmHWM of Linux: torch
    allocates outside of Python, and getrusage returns the parent's peak if that is larger.

    Raises
    ------
    RuntimeError
        If `work` fails, or there is no /proc.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_measure, args=(theirs, work, arguments))
    child.start()
    theirs.close()
    try:
        peak = float(ours.recv())
    except EOFError as error:
        raise RuntimeError(
            "The process whose memory is measured ended early; its error is printed above."
        ) from error
    finally:
        child.join()
    return peak


def _measure(answer: Connection, work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    from bandgap.foundation.machine import set_threads

    set_threads()
    before = _memory_MB("VmRSS")
    work(*arguments)
    answer.send(_memory_MB("VmHWM") - before)


def _memory_MB(name: str) -> float:
    """Return a memory figure of this process from /proc, in MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no line {name}.")
