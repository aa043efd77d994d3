"""Read files in a separate process with limits of CPU time and memory.

A damaged or hostile file can crash a reader, occupy it for hours or need all memory. Here it ends
only the reader process: the file gets a refused record with the reason, and the next file is read
by a new process. One process reads many files. On Linux it is a fork of a command, which takes
milliseconds, and elsewhere a new interpreter. Windows has no such limits; a crash is contained.
"""

import contextlib
import json
import logging
import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from bandgap.foundation.errors import printable
from bandgap.foundation.forks import can_fork, close_files_except, fork_process
from bandgap.structures.contents import SMALL, megabytes
from bandgap.structures.packed import from_parts
from bandgap.structures.reader_process import (
    HEADER,
    Kind,
    Request,
    cpu_limit_s,
    serve,
)
from bandgap.structures.records import Limits, Problem, StructureRecord

_LOG = logging.getLogger(__name__)
MAX_ENDED = 3  # files of one archive that may end the reader process before it is given up
_N_IDLE = 2  # processes that wait for the next file
_READ_BYTES = 1 << 16
# Without an answer for the CPU limit times this factor, and these seconds more, the process hangs.
_SLOW_FACTOR = 20
_SLOW_S = 30.0
_REMEDY = "Split the file, or export the structure again as CIF or extXYZ"
_idle: list["_Reader"] = []


class _EndedError(Exception):
    """The reader process ended before its answer was complete; the message is the reason."""


def read_isolated(
    source: Path | bytes,
    name: str,
    *,
    limits: Limits,
    max_records: int,
    parts_of: Callable[..., Any],
    remedy: str = _REMEDY,
) -> Iterator[StructureRecord]:
    """Yield the records of a file or archive, read in a separate process.

    Parameters
    ----------
    source
        Path of the file, or its content.
    name
        Name of the file on its records.
    limits
        Largest sizes and counts that are read.
    max_records
        Largest number of records, in addition to one on the limit.
    parts_of
        The function that reads, with the arguments of `bandgap.structures.reading.parts_of`. A new
        interpreter imports it by its name.
    remedy
        What to do about a file that ends its reader, as a sentence without its point.
    """
    with contextlib.ExitStack() as stack:
        data = b""
        path = None
        if isinstance(source, Path):
            path = Path(os.path.abspath(source))
        elif len(source) > SMALL:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            path = Path(folder, "content")
            path.write_bytes(source)
        else:
            data = source
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        progress = _Progress(name, size)
        while True:
            request = Request(
                name=name,
                path="" if path is None else str(path),
                n_bytes=len(data),
                limits=limits,
                max_records=max_records - progress.n_records,
                n_skipped=progress.n_skipped,
            )
            try:
                yield from _answers(request, data, progress, parts_of=parts_of)
                return
            except _EndedError as error:
                yield progress.refusal(f"{error}. {remedy}.")
            if not progress.can_continue:
                return
            if progress.n_ended == MAX_ENDED:
                yield _refused(
                    name,
                    f"the remaining files of the archive were not read, because {MAX_ENDED} of its"
                    " files ended their reader. Delete these files from it, and pack it again.",
                )
                return


class _Progress:
    """Which part of a file or archive is being read, and the number of records."""

    def __init__(self, name: str, size: int) -> None:
        self.n_records = 0
        self.n_ended = 0
        self.n_skipped = 0  # parts that are not read again after the process ended
        self.can_continue = False
        self._name = name
        self._size = size
        self._part: dict[str, Any] | None = None
        self._n_of_part = 0

    def begin(self, part: dict[str, Any]) -> None:
        """Note that a part begins."""
        self._part = part
        self._n_of_part = 0

    def end(self) -> None:
        """Note that a part was read."""
        self._part = None

    def add(self) -> None:
        """Count a record."""
        self.n_records += 1
        self._n_of_part += 1

    @property
    def size(self) -> int:
        """Number of bytes of the part, which decide its limits."""
        return self._size if self._part is None else int(self._part["size"])

    def refusal(self, reason: str) -> StructureRecord:
        """Return the record of the part whose reader process ended."""
        self.n_ended += 1
        self.n_records += 1
        self.can_continue = self._part is not None and bool(self._part["is_member"])
        part = self._part
        if part is None:
            return _refused(self._name, f"reading was stopped: {reason}")
        self.n_skipped = part["index"] + 1
        where = f" after {self._n_of_part:,} structures" if self._n_of_part else ""
        self._part = None
        return _refused(part["name"], f"reading was stopped{where}: {reason}")


def _answers(
    request: Request, data: bytes, progress: _Progress, *, parts_of: Callable[..., Any]
) -> Generator[StructureRecord, None, None]:
    reader = _asked_reader(request, data, parts_of)
    is_reusable = False
    try:
        while True:
            kind, head, numbers = reader.answer(progress.size)
            if kind == Kind.RECORD:
                progress.add()
                yield from_parts(head, numbers).unpack()
            elif kind == Kind.PART:
                progress.begin(json.loads(head))
            elif kind == Kind.PART_END:
                progress.end()
            elif kind == Kind.ERROR:
                _LOG.error("reading %s failed: %s", request.name, head.decode())
                raise _EndedError(f"it cannot be read ({json.loads(head)['reason']})")
            else:
                is_reusable = json.loads(head)["is_reusable"]
                return
    finally:
        if is_reusable and reader.owner == os.getpid() and len(_idle) < _N_IDLE:
            _idle.append(reader)
        else:
            reader.close()


def _asked_reader(request: Request, data: bytes, parts_of: Callable[..., Any]) -> "_Reader":
    """Return a process that has received the request: one that waits, or else a new one."""
    # A reader of another owner belongs to the process of which this one is a fork.
    for reader in [reader for reader in _idle if reader.parts_of == parts_of]:
        try:
            _idle.remove(reader)
        except ValueError:
            continue  # another thread has taken it
        if reader.owner != os.getpid():
            continue
        try:
            reader.ask(request, data)
        except OSError:
            reader.close()  # it was killed while it waited
            continue
        return reader
    reader = _forked(parts_of) if _is_fork_safe() else _spawned(parts_of)
    try:
        reader.ask(request, data)
    except OSError:
        error = reader.error_of_end(0)
        reader.close()
        raise error from None
    return reader


def _is_fork_safe() -> bool:
    """Return whether a fork of this process can read: in a command, not in a job or the service.

    In these, other threads may use libraries that the fork would find locked.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and multiprocessing.parent_process() is None and can_fork()


def _forked(parts_of: Callable[..., Any]) -> "_Reader":
    request_end, requests = os.pipe()
    answers, answer_end = os.pipe()

    def run() -> None:
        # An inherited pipe or socket would stay open after this process has closed it.
        close_files_except(request_end, answer_end)
        serve(request_end, answer_end, parts_of)

    pid = fork_process(run)
    os.close(request_end)
    os.close(answer_end)
    return _Reader(requests, answers, _Fork(pid), parts_of)


def _spawned(parts_of: Callable[..., Any]) -> "_Reader":
    # Not needed in a command.
    from bandgap.foundation.children import interpreter, one_thread

    process = subprocess.Popen(
        interpreter("bandgap.structures.reader_main", parts_of.__module__, parts_of.__qualname__),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=one_thread(),
        bufsize=0,
    )
    assert process.stdin is not None  # because of PIPE
    assert process.stdout is not None
    requests, answers = os.dup(process.stdin.fileno()), os.dup(process.stdout.fileno())
    process.stdin.close()
    process.stdout.close()
    return _Reader(requests, answers, process, parts_of)


class _Fork:
    """A fork of this process, with the two methods of `subprocess.Popen` that are used here."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def kill(self) -> None:
        """End the process if it has not ended."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit code, or minus the number of the signal, once the process has ended.

        It is 0 if another process started this one.
        """
        if self._code is None:
            try:
                _, status = os.waitpid(self._pid, 0)
                self._code = os.waitstatus_to_exitcode(status)
            except ChildProcessError:
                self._code = 0
        return self._code


class _Reader:
    """A process that reads files: requests are written to it, and answers read from it."""

    def __init__(
        self,
        requests: int,
        answers: int,
        process: "_Fork | subprocess.Popen[bytes]",
        parts_of: Callable[..., Any],
    ) -> None:
        self.owner = os.getpid()
        self.parts_of = parts_of
        self._requests = requests
        self._answers = answers
        self._process = process
        self._buffer = bytearray()
        self._is_hanging = False
        self.close = weakref.finalize(self, _end, self.owner, requests, answers, process)

    def ask(self, request: Request, data: bytes) -> None:
        """Send a request. Raises OSError if the process has ended."""
        head = request.to_json()
        message = memoryview(HEADER.pack(Kind.REQUEST, len(head), len(data)) + head + data)
        while message:
            message = message[os.write(self._requests, message) :]

    def answer(self, size: int) -> tuple[bytes, bytes, bytes]:
        """Return kind and both parts of the next answer on a file of this size.

        Raises _EndedError if the process has ended or hangs.
        """
        kind, n_head, n_numbers = HEADER.unpack(self._read(HEADER.size, size))
        data = self._read(n_head + n_numbers, size)
        return kind, data[:n_head], data[n_head:]

    def error_of_end(self, size: int) -> _EndedError:
        """Return why the process ended, for the refusal of a file of this size."""
        if self._is_hanging:
            return _EndedError("its reader does not answer")
        code = self._process.wait()
        what = f"the limit for a file of {megabytes(size)}"
        if sys.platform != "win32":
            if code == -signal.SIGPROF:
                return _EndedError(
                    f"it takes more than {cpu_limit_s(size):.3g} s of CPU time, {what}"
                )
            if code == -signal.SIGKILL:
                return _EndedError("the system ended its reader, probably for lack of memory")
        signal_text = f" (signal {-code})" if code < 0 else ""
        return _EndedError(
            f"its reader ended unexpectedly{signal_text}, which only a damaged file, or one that"
            f" needs too much memory, should cause"
        )

    def _read(self, n_bytes: int, size: int) -> bytes:
        timeout = _SLOW_S + _SLOW_FACTOR * cpu_limit_s(size)
        while len(self._buffer) < n_bytes:
            block = self._block(timeout)
            if not block:
                raise self.error_of_end(size)
            self._buffer += block
        data = bytes(self._buffer[:n_bytes])
        del self._buffer[:n_bytes]
        return data

    def _block(self, timeout: float) -> bytes:
        """Return the next bytes, b"" if the process has ended or hangs."""
        if sys.platform != "win32":  # where pipes cannot be waited for
            with selectors.DefaultSelector() as selector:
                selector.register(self._answers, selectors.EVENT_READ)
                if not selector.select(timeout):
                    self._is_hanging = True
                    return b""
        return os.read(self._answers, _READ_BYTES)


def _end(
    owner: int, requests: int, answers: int, process: "_Fork | subprocess.Popen[bytes]"
) -> None:
    """End a reader process; a fork of the process that uses it only closes its own pipes."""
    os.close(requests)
    os.close(answers)
    if owner != os.getpid():
        return
    process.kill()
    process.wait()


def _refused(file: str, reason: str) -> StructureRecord:
    return StructureRecord(file, file, "", None, (Problem("refused", printable(reason)),))
