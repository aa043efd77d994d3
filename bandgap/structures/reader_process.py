"""The process that reads files for `bandgap.structures.isolation`, and the messages of both.

A message is a header (kind and two lengths), JSON, and bytes. The limits grow with the size of the
file as it is given, also of a packed one: unpacking must not make them larger.
"""

import dataclasses
import faulthandler
import gc
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from bandgap.foundation.errors import printable
from bandgap.foundation.machine import data_bytes, limit_memory
from bandgap.structures.contents import Content, megabytes
from bandgap.structures.packed import parts_of as bytes_of
from bandgap.structures.records import Limits, Problem, StructureRecord

HEADER = struct.Struct("<cqq")
# Without a further structure, for a file of at most 1 MB. The slowest legal structures take 0.01 s.
CPU_S: Final = 10.0
CPU_S_PER_FURTHER_MB: Final = 6.0
# A file or archive with structures may take so many times as long. A legal one of 1 MB takes up to
# 30 s: how many structures it has is limited by its size.
TOTAL_FACTOR: Final = 30
# In addition to what the process needs without a file; for a file of at most 1 MB, and for each
# further byte.
MEMORY_BYTES: Final = 300_000_000
MEMORY_PER_BYTE: Final = 60
_KEPT_BYTES = 64_000_000  # a process that has not freed more than this ends after its file
_FLUSH_S = 0.2


class Kind:
    """Kinds of messages."""

    REQUEST: Final = b"Q"
    PART: Final = b"P"  # a file, or a file of an archive, begins
    RECORD: Final = b"R"
    PART_END: Final = b"p"
    END: Final = b"E"
    ERROR: Final = b"X"


@dataclass(frozen=True)
class Request:
    """A file to read: its path, or the number of its bytes, which follow the request."""

    name: str
    path: str
    n_bytes: int
    limits: Limits
    max_records: int
    n_skipped: int  # files of an archive that were read before

    def to_json(self) -> bytes:
        """Return the request as JSON."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Return the request of `to_json`."""
        fields = json.loads(data)
        return cls(**{**fields, "limits": Limits(**fields["limits"])})


def cpu_limit_s(n_bytes: int) -> float:
    """Return the CPU time in seconds without a further structure, for a file of this size."""
    return CPU_S + CPU_S_PER_FURTHER_MB * max(0.0, n_bytes / 1e6 - 1.0)


def memory_limit(n_bytes: int) -> int:
    """Return the memory in bytes for a file of this size."""
    return MEMORY_BYTES + MEMORY_PER_BYTE * max(0, n_bytes - 1_000_000)


def serve(requests: int, answers: int, parts_of: Callable[..., Any]) -> None:
    """Answer the requests of one file descriptor on another one, until there are no more.

    `parts_of` is `bandgap.structures.reading.parts_of`, or a function with its arguments.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # for libraries that print
        os.dup2(null, descriptor)
    faulthandler.disable()  # a crash is reported by the parent process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    if sys.platform != "win32":
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
    gc.freeze()
    budget = _Budget()
    with open(requests, "rb") as stream, open(answers, "wb", buffering=1 << 16) as out:
        while header := stream.read(HEADER.size):
            _, n_head, n_bytes = HEADER.unpack(header)
            request = Request.from_json(stream.read(n_head))
            data = stream.read(n_bytes)
            try:
                _answer(request, data, out, budget, parts_of)
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                _send(out, Kind.ERROR, {"reason": reason})
                return
            is_reusable = budget.is_small
            _send(out, Kind.END, {"is_reusable": is_reusable})
            out.flush()
            if not is_reusable:
                return


def _answer(
    request: Request,
    data: bytes,
    out: IO[bytes],
    budget: "_Budget",
    parts_of: Callable[..., Any],
) -> None:
    size = os.path.getsize(request.path) if request.path else len(data)
    budget.begin(size)
    content = Content.at(Path(request.path), size=size) if request.path else Content.of(data)
    parts = parts_of(content, request.name, limits=request.limits, max_records=request.max_records)
    end_s = time.process_time() + TOTAL_FACTOR * cpu_limit_s(size)
    for index, part in enumerate(parts):
        if index < request.n_skipped:
            continue
        if time.process_time() > end_s:
            _send_record(out, _archive_refusal(request.name))
            break
        head = {"name": part.name, "size": part.size, "index": index, "is_member": part.is_member}
        _send(out, Kind.PART, head)
        out.flush()
        budget.begin(part.size)
        _send_records(out, part, end_s=end_s, budget=budget)
        _send(out, Kind.PART_END, {})
        out.flush()
        budget.begin(size)
    budget.end()


def _send_records(out: IO[bytes], part: Any, *, end_s: float, budget: "_Budget") -> None:
    """Send the records of a part, up to a CPU time of this process."""
    last_flush = time.monotonic()
    for n_sent, record in enumerate(part.records):
        if n_sent and time.process_time() > end_s:
            _send_record(out, _time_refusal(part.name, part.size, n_sent))
            return
        _send_record(out, record)
        if record.status != "refused":
            budget.restart()
        if time.monotonic() - last_flush > _FLUSH_S:
            out.flush()
            last_flush = time.monotonic()


def _send(out: IO[bytes], kind: bytes, values: dict[str, Any]) -> None:
    head = json.dumps(values).encode()
    out.write(HEADER.pack(kind, len(head), 0) + head)


def _send_record(out: IO[bytes], record: StructureRecord) -> None:
    head, numbers = bytes_of(record)
    out.write(HEADER.pack(Kind.RECORD, len(head), len(numbers)) + head + numbers)


def _time_refusal(name: str, size: int, n_records: int) -> StructureRecord:
    text = (
        f"the structures after the first {n_records:,} were not read: these took as much CPU time"
        f" as a file of {megabytes(size)} may take. Unpack it if it is packed, or split it into"
        " files with fewer structures."
    )
    return StructureRecord(printable(name), name, "", None, (Problem("refused", text),))


def _archive_refusal(name: str) -> StructureRecord:
    text = (
        "the remaining files of the archive were not read, because the files before them took too"
        " much time for its size. Divide it into smaller archives."
    )
    return StructureRecord(printable(name), name, "", None, (Problem("refused", text),))


class _Budget:
    """The limits of CPU time and memory of this process, as far as the system has them.

    The system ends the process where it takes more time, and refuses it more memory.
    """

    def __init__(self) -> None:
        self._base = data_bytes() or 0
        self._limit_s = 0.0

    @property
    def is_small(self) -> bool:
        """Whether the process has freed the memory that files needed."""
        return (data_bytes() or 0) - self._base < _KEPT_BYTES

    def begin(self, n_bytes: int) -> None:
        """Start the time of a file of this size."""
        self._limit_s = cpu_limit_s(n_bytes)
        self.restart()
        limit_memory(self._base + memory_limit(n_bytes))

    def restart(self) -> None:
        """Start the time again, after a structure."""
        self._set_time(self._limit_s)

    def end(self) -> None:
        """Stop the time."""
        self._set_time(0.0)

    def _set_time(self, seconds: float) -> None:
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_PROF, seconds)
