"""CPU time with that of worker processes, in which long chains of the package run."""

import psutil  # type: ignore[import-untyped]


def cpu_seconds() -> float:
    """Return user and system time of this process and all that it started, in seconds.

    The difference of two values is the time between them: the time of a worker that ends in
    between is counted with its parent.
    """
    process = psutil.Process()
    total = sum(process.cpu_times()[:4])
    for child in process.children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.NoSuchProcess:  # it has just ended, and is counted with its parent next time
            continue
    return float(total)
