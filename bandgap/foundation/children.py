"""Call a function in another interpreter, with limits of CPU time and memory."""

import atexit
import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import data_bytes, limit_memory

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from bandgap.foundation.children import main; main()"
)
_SLOW_FACTOR = 20  # a child may wait for the processor so many times as long as it may compute
_N_WAITING = 2  # children that wait for the next call, as their start takes half a second
_waiting: list["subprocess.Popen[bytes]"] = []


def in_child(
    function: Callable[..., Iterable[Any]],
    data: bytes = b"",
    *,
    seconds: float,
    n_bytes: int,
    **arguments: Any,
) -> Iterator[Any]:
    """Yield the items of `function(data, **arguments)`, computed by another interpreter.

    Parameters
    ----------
    function
        A function of a module. Its items and its other arguments are values of JSON.
    data
        Its first argument.
    seconds
        CPU time that it may take up to the next item. With the items come as many times of it.
    n_bytes
        Further memory that it may take.

    Raises
    ------
    InputError
        If the function raises it, if it needs more time or memory, and if it ends its process.
    """
    request = {
        "function": [function.__module__, function.__qualname__],
        "n_data": len(data),
        "seconds": seconds,
        "n_bytes": n_bytes,
        "arguments": arguments,
    }
    child = _child()
    is_complete = False
    assert child.stdin is not None and child.stdout is not None  # because of PIPE
    try:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request).encode() + b"\n" + data)
            child.stdin.flush()
        for line in child.stdout:
            if not line.endswith(b"\n"):
                break
            answer = json.loads(line)
            if "item" in answer:
                yield answer["item"]
                continue
            is_complete = True
            if answer["error"]:
                raise InputError(answer["error"])
            return
    finally:
        if is_complete and len(_waiting) < _N_WAITING:
            _waiting.append(child)
        else:
            child.kill()
            child.communicate()
    raise InputError(
        f"Reading takes more than {seconds:.3g} s or {n_bytes / 1e6:,.0f} MB of memory, the limits,"
        " or damaged data end it. Give a smaller file, or write it again."
    )


@atexit.register
def end_waiting() -> None:
    """End the children that wait for the next call."""
    while _waiting:
        _waiting.pop().communicate()


def _child() -> "subprocess.Popen[bytes]":
    """Return a child that waits, or else a new one."""
    while _waiting:
        with contextlib.suppress(IndexError):  # another thread has taken it
            child = _waiting.pop()
            if child.poll() is None:
                return child
            child.communicate()
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **dict.fromkeys(names, "1")},
    )


def main() -> None:
    """Answer the calls on stdin, each with its items and at the end its error, as lines of JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    requests = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # for libraries that print
        for line in requests:
            request = json.loads(line)
            data = requests.read(request["n_data"])
            for answer in _answers(request, data):
                answers.write(json.dumps(answer).encode() + b"\n")
                answers.flush()


def _answers(request: dict[str, Any], data: bytes) -> Iterator[dict[str, Any]]:
    limit_memory(sys.maxsize)  # ends that of the call before
    module, name = request["function"]
    function = getattr(importlib.import_module(module), name)
    limit_memory((data_bytes() or 0) + request["n_bytes"])
    error = ""
    try:
        _limit_time(request["seconds"])
        for item in function(data, **request["arguments"]):
            yield {"item": item}
            _limit_time(request["seconds"])
    except InputError as refusal:
        error = str(refusal)
    _limit_time(0.0)
    yield {"error": error}


def _limit_time(seconds: float) -> None:
    """Let the system end this process after these seconds of CPU time, or many times as long."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, _SLOW_FACTOR * seconds)
