"""A table of predictions that grows chunk by chunk, and resumes after a break where the last whole chunk ended.

Next to the table lies, while it grows, a small file, the mark of an unfinished table. It says for which work the table
is, how many rows are done, of what they are made, and how long the files were then, with a checksum of them. Whatever
was written after that is cut off. The mark is written before the first row, so that no break leaves a table without it.
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

SUFFIX = ".unfinished.json"
_BLOCK = 1 << 20


@dataclass
class GrowingFile:
    """A file that is written at its end only; `digest` is SHA-256 of the first `size` bytes."""

    path: Path
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def append(self, text: str | bytes) -> None:
        """Write at the end, through to the disk."""
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
        """Cut off what lies behind the bytes that were written."""
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.truncate(self.size)

    def state(self) -> dict[str, Any]:
        """Return what tells whether the file is still the one that was written."""
        return {"size": self.size, "sha256": self.digest.hexdigest()}


class GrowingTable:
    """Files that grow together, and the rows that are in all of them.

    `work` names how rows are made, `made_of` gives a digest of what the first so many are made of: rows stay where both
    are as before, whatever comes after them.
    Use it in a `with`: where the block ends without an error, the table is finished and the file beside it removed.
    """

    def __init__(
        self, table: Path, *, work: str, made_of: Callable[[int], str], others: Mapping[str, Path] | None = None
    ) -> None:
        self.path, self.work, self.made_of = table, work, made_of
        self.beside = _beside(table)
        self.files = {"table": GrowingFile(table)} | {k: GrowingFile(p) for k, p in (others or {}).items()}
        self.rows = 0
        self.counts: Counter[str] = Counter()  # of what the caller counts in the rows
        self.note = ""  # what was found of an earlier attempt, in one sentence
        self._take_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            for file in self.files.values():
                file.end()
            self.beside.unlink(missing_ok=True)

    def commit(self, rows: int, counts: Mapping[str, int], **texts: str | bytes) -> None:
        """Add so many rows to the files, by name, and note that they are there; a file that is not named gets none.

        Raises BandgapError where a file cannot be written, as on a full disk; the rows of before are then safe.
        """
        done = self.rows
        try:
            if not done:
                self._write_mark(made_of="")
            for name, text in texts.items():
                self.files[name].append(text)
            self.rows += rows
            self.counts.update(counts)
            self._write_mark(made_of=self.made_of(self.rows))
        except OSError as error:
            raise BandgapError(
                f"{self.path} cannot be written: {error.strerror}. It has {done:,} whole rows, and is unfinished. Free "
                "some disk space, or name another folder, and start the same again."
            ) from error

    def _write_mark(self, *, made_of: str) -> None:
        """Write the mark of the unfinished table through to the disk, whole or not at all."""
        files = {name: file.state() for name, file in self.files.items()}
        state = {
            "work": self.work,
            "made_of": made_of,
            "rows": self.rows,
            "counts": self.counts,
            "files": files,
        }
        partial = self.beside.with_name(self.beside.name + ".part")
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.write(json.dumps(state))
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.beside)
        finally:
            partial.unlink(missing_ok=True)

    def _take_up(self) -> None:
        """Go on from what lies there, or begin anew: files are emptied only when it is not this work's."""
        for file in self.files.values():
            file.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.beside.exists():
            return self._begin()
        try:
            state = read_json(self.beside)
            rows, files = int(state["rows"]), {k: dict(state["files"][k]) for k in self.files}
            counts = Counter({str(name): int(count) for name, count in state["counts"].items()})
            earlier = "made_of" not in state
            same = state["work"] == self.work and set(state["files"]) == set(self.files)
        except DAMAGE:
            self.note = f"{self.beside} is damaged; {self.path} is written anew."
            return self._begin()
        if earlier:
            self.note = (
                f"{self.path} was begun by an earlier version, which did not note of what its rows are made, and is "
                "written anew."
            )
            return self._begin()
        if same and not rows:  # the first chunk was not written whole
            return self._begin()
        if not same or self.made_of(rows) != state["made_of"]:
            self.note = (
                f"{self.path} was begun with other structures, another model or other options, and is written anew."
            )
            return self._begin()
        if not all(_restored(file, files[name]) for name, file in self.files.items()):
            self.note = f"{self.path} was changed since it was begun, and is written anew."
            return self._begin()
        self.rows, self.counts = rows, counts
        self.note = f"{self.path} holds {rows:,} rows of this work already; it goes on after them."

    def _begin(self) -> None:
        for file in self.files.values():
            file.size, file.digest = 0, hashlib.sha256()
            if file.path.is_dir():
                raise InputError(f"{file.path} is a folder. Name a file to write.")


def rows_in(table: Path) -> int:
    """Return how many rows a table that is not finished has for certain, 0 where nothing is noted of it."""
    try:
        return int(read_json(_beside(table))["rows"])
    except DAMAGE:
        return 0


def _beside(table: Path) -> Path:
    return table.with_name(table.name + SUFFIX)


def _restored(file: GrowingFile, state: Mapping[str, Any]) -> bool:
    """Set a file to the state that was noted; return False where its beginning is another."""
    try:
        file.digest, left = hashlib.sha256(), int(state["size"])
        file.size = left
        with file.path.open("rb") as opened:
            while left and (block := opened.read(min(left, _BLOCK))):
                file.digest.update(block)
                left -= len(block)
        return left == 0 and file.digest.hexdigest() == state["sha256"]
    except DAMAGE:
        return False
