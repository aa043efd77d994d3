"""Call a function in a new interpreter with limits of CPU time and memory."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import data_bytes, limit_memory

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from {module} import main; main(*sys.argv[2:])"
)
_SLOW_FACTOR = 20  # a child may wait for the processor so many times as long as it may compute


def interpreter(module: str, *arguments: str) -> list[str]:
    """Return the command of a new interpreter that calls `main` of a module with arguments."""
    program = _PROGRAM.format(module=module)
    return [sys.executable, "-P", "-c", program, json.dumps(sys.path), *arguments]


def one_thread() -> dict[str, str]:
    """Return the environment of a process whose libraries compute with one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}


def in_child(
    function: Callable[..., Any], data: bytes, *, seconds: int, n_bytes: int, **arguments: Any
) -> Any:
    """Return `function(data, **arguments)`, computed by a new interpreter.

    Parameters
    ----------
    function
        A function of a module. Its result and its other arguments are values of JSON.
    data
        Its first argument.
    seconds, n_bytes
        CPU time and further memory that the call may take.

    Raises
    ------
    InputError
        If the function raises it, and if it needs more time or memory.
    """
    command = interpreter(
        __name__, function.__module__, function.__qualname__, str(seconds), str(n_bytes)
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        child = subprocess.run(
            [*command, json.dumps(arguments)],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=one_thread(),
            timeout=_SLOW_FACTOR * seconds,
            check=False,
        )
        if child.returncode == 0:
            answer = json.loads(child.stdout)
            if "error" in answer:
                raise InputError(answer["error"])
            return answer["result"]
    raise InputError(
        f"Reading takes more than {seconds} s or {n_bytes / 1e6:,.0f} MB of memory, the limits. "
        "Give a smaller file."
    )


def main(module: str, name: str, seconds: str, n_bytes: str, arguments: str) -> None:
    """Call a function with stdin, and write its result or error to stdout as JSON."""
    function = getattr(importlib.import_module(module), name)
    data = sys.stdin.buffer.read()
    limit_memory((data_bytes() or 0) + int(n_bytes))
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    try:
        answer = {"result": function(data, **json.loads(arguments))}
    except InputError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))
