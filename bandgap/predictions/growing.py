"""A table of predictions that grows chunk by chunk and resumes after the last complete chunk.

While the table grows, a small file next to it, the mark, says that it is unfinished. The mark
contains the name of the work, the number of complete rows, a digest of their inputs, and size and
checksum of the files at that point. Bytes after that point are cut off when writing resumes. The
mark is written before the first row, so that an interruption never leaves an unfinished table
without a mark.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bandgap.foundation.damage import DAMAGE, read_json
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.foundation.replacement import write_whole

SUFFIX = ".unfinished.json"
_BLOCK = 1 << 20


@dataclass
class GrowingFile:
    """A file to which bytes are only appended; `digest` is SHA-256 of the first `size` bytes."""

    path: Path
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def append(self, text: str | bytes) -> None:
        """Append text or bytes and flush them to the disk."""
        data = text.encode() if isinstance(text, str) else text
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.seek(self.size)
            file.write(data)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self.size += len(data)
        self.digest.update(data)

    def end(self) -> None:
        """Cut off everything after the first `size` bytes."""
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.truncate(self.size)

    def state(self) -> dict[str, Any]:
        """Return size and checksum, by which a changed file is recognised."""
        return {"size": self.size, "sha256": self.digest.hexdigest()}


class GrowingTable:
    """Files that grow together, and the number of rows that are complete in all of them.

    Use it in a `with` statement. When the block ends without an error, the table is finished and
    the mark is removed.

    Parameters
    ----------
    table
        Path of the table.
    work
        Fingerprint of how rows are computed, such as model and options.
    made_of
        Function that returns a digest of the inputs of the first so many rows. Rows of an
        unfinished table are reused where both `work` and this digest are the same, whatever rows
        follow.
    other_files
        Paths of further files that grow with the table, by name.
    """

    def __init__(
        self,
        table: Path,
        *,
        work: str,
        made_of: Callable[[int], str],
        other_files: Mapping[str, Path] | None = None,
    ) -> None:
        self.path = table
        self.work = work
        self.made_of = made_of
        self.mark = _mark_of(table)
        self.files = {"table": GrowingFile(table)} | {
            k: GrowingFile(p) for k, p in (other_files or {}).items()
        }
        self.rows = 0
        self.counts: Counter[str] = Counter()  # of the complete rows, by the caller's names
        self.note = ""  # one sentence on an unfinished table of an earlier call
        self._resume_or_start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            for file in self.files.values():
                file.end()
            self.mark.unlink(missing_ok=True)

    def commit(self, rows: int, counts: Mapping[str, int], **texts: str | bytes) -> None:
        """Append rows to the files and record them in the mark.

        Parameters
        ----------
        rows
            Number of new rows.
        counts
            Counts of the new rows, which are added to `counts`.
        texts
            Text or bytes to append, by the name of the file. A file that is not named is not
            changed.

        Raises
        ------
        BandgapError
            Where a file cannot be written, as on a full disk. Earlier rows are then still complete.
        """
        n_complete = self.rows
        try:
            if not n_complete:
                self._write_mark(made_of="")
            for name, text in texts.items():
                self.files[name].append(text)
            self.rows += rows
            self.counts.update(counts)
            self._write_mark(made_of=self.made_of(self.rows))
        except OSError as error:
            raise BandgapError(
                f"{self.path} cannot be written: {error.strerror}. It has {n_complete:,} complete "
                "rows and is unfinished. Free some disk space, or name another folder, and start "
                "the same command again."
            ) from error

    def _write_mark(self, *, made_of: str) -> None:
        """Write the mark atomically and flush it to the disk."""
        files = {name: file.state() for name, file in self.files.items()}
        state = {
            "work": self.work,
            "made_of": made_of,
            "rows": self.rows,
            "counts": self.counts,
            "files": files,
        }
        write_whole(self.mark, json.dumps(state))

    def _resume_or_start(self) -> None:
        """Resume an unfinished table of the same work, or start at the first row."""
        for file in self.files.values():
            file.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.mark.exists():
            return self._start()
        try:
            state = read_json(self.mark)
            rows = int(state["rows"])
            made_of = state["made_of"]
            files = {k: dict(state["files"][k]) for k in self.files}
            counts = Counter({str(name): int(count) for name, count in state["counts"].items()})
            is_same_work = state["work"] == self.work and set(state["files"]) == set(self.files)
        except DAMAGE:
            self.note = f"{self.mark} is damaged; {self.path} is rewritten from the first row."
            return self._start()
        if is_same_work and not rows:  # the first chunk is incomplete
            return self._start()
        if not is_same_work or self.made_of(rows) != made_of:
            self.note = (
                f"{self.path} was started with other structures, another model or other options, "
                "and is rewritten from the first row."
            )
            return self._start()
        if not all(_restored(file, files[name]) for name, file in self.files.items()):
            self.note = (
                f"{self.path} was changed since it was started, "
                "and is rewritten from the first row."
            )
            return self._start()
        self.rows = rows
        self.counts = counts
        self.note = (
            f"{self.path} already contains {rows:,} rows of this work; writing resumes after them."
        )

    def _start(self) -> None:
        for file in self.files.values():
            file.size = 0
            file.digest = hashlib.sha256()
            if file.path.is_dir():
                raise InputError(f"{file.path} is a folder. Name a file to write.")


def rows_in(table: Path) -> int:
    """Return the number of complete rows of an unfinished table, 0 without a readable mark."""
    try:
        return int(read_json(_mark_of(table))["rows"])
    except DAMAGE:
        return 0


def _mark_of(table: Path) -> Path:
    return table.with_name(table.name + SUFFIX)


def _restored(file: GrowingFile, state: Mapping[str, Any]) -> bool:
    """Set a file to a recorded state; return False where its content differs."""
    try:
        n_remaining = int(state["size"])
        file.digest = hashlib.sha256()
        file.size = n_remaining
        with file.path.open("rb") as stream:
            while n_remaining and (block := stream.read(min(n_remaining, _BLOCK))):
                file.digest.update(block)
                n_remaining -= len(block)
        return n_remaining == 0 and file.digest.hexdigest() == state["sha256"]
    except DAMAGE:
        return False
