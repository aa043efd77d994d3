"""The largest amount of memory that this process has held so far, as the operating system counts it."""

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_memory_bytes() -> dict[str, int | None]:
    """Return the peak of the process's resident memory and of torch's memory on a GPU; None where it is not known.

    Linux keeps the peak of this program as VmHWM; what getrusage says there may be that of the process that started it.
    """
    return {"process": _process_bytes(), "gpu": _gpu_bytes()}


def _process_bytes() -> int | None:
    try:
        line = next(row for row in _STATUS.read_text(encoding="ascii").splitlines() if row.startswith("VmHWM:"))
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
