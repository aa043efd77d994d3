"""Times of one computation on one device, and the memory that it needs."""

import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")


def timed(work: Callable[[], T], *, device: torch.device) -> tuple[T, float]:
    """Return what `work` returns and its seconds: of this process on a CPU, of the wall clock on CUDA.

    Processor seconds of one thread are what an idle core would take, whoever else uses the machine.
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
    """Return by how many MB (10^6 bytes) a new process peaks above its start while it calls work(*arguments).

    torch allocates outside of Python, so that only the operating system knows. Linux keeps the peak as VmHWM; getrusage
    would give that of the parent where it is larger. Raises RuntimeError where `work` fails or there is no /proc.
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
            "The process whose memory was to be measured ended early; its error is above."
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
    """Return a figure of this process's memory that Linux keeps, in MB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"/proc/self/status has no line {name}.")
