"""Records on disk, in their order: what is read once and needed twice, however many structures there are.

A record is the sizes of its two parts (`packed`) and these; the file has no name, so that nothing
is left of it when the process ends. Where a process may be forked, another can read while this one goes on with
something else (`Spool.ahead`).
"""

import hashlib
import os
import struct
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Self

from bandgap.foundation.forks import ForkedItems, can_fork
from bandgap.structures.packed import PackedRecord, from_parts, parts_of
from bandgap.structures.reading import UniqueIds
from bandgap.structures.records import StructureRecord

SHOWN = 3  # refused structures of which a tally has the reasons
_BATCH = 256  # records between two words of a process that reads ahead
_SIZES = struct.Struct("<qq")  # bytes of the JSON, bytes of the numbers


@dataclass
class Tally:
    """How many records are ready, usable with a warning and refused, and the first of these as (file, reason)."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[StructureRecord]) -> Self:
        """Count records."""
        found = cls()
        for record in records:
            found.add(record)
        return found

    def add(self, record: StructureRecord) -> None:
        """Count one more record."""
        self.counts[record.status] += 1
        if record.status == "refused" and len(self.refused) < SHOWN:
            self.refused.append((record.file, record.problem))


@dataclass(frozen=True)
class _Whole:
    """What is known once all records are read; ids are those that they have by themselves."""

    ids: list[str]
    digest: str
    tally: Tally


class Spool:
    """Records that were read from a stream (`stream_paths`); every walk through it gives them anew, ids made unique.

    Besides the file it holds the ids.
    """

    def __init__(self, records: Iterable[StructureRecord]) -> None:
        self._begin(lambda: records, forked=False)
        self._finish()

    @classmethod
    def ahead(cls, read: Callable[[], Iterable[StructureRecord]]) -> Self:
        """Begin to read in a fork of this process; where none can be made, read all at once.

        A walk gives records as soon as they are there; what needs all of them waits. What `read` and its records raise
        is raised where they are needed.
        """
        if not can_fork():
            return cls(read())
        spool = cls.__new__(cls)
        spool._begin(read, forked=True)
        return spool

    def __len__(self) -> int:
        return len(self._finish().ids)

    def __iter__(self) -> Iterator[StructureRecord]:
        return (packed.unpacked() for packed in self.packed())

    def packed(self) -> Iterator[PackedRecord]:
        """Walk through the records without making their atoms."""
        unique, at, given = UniqueIds(lambda: set(self._finish().ids)), 0, 0
        while self._has(given):
            found, at = self._read(at)
            given += 1
            yield PackedRecord(unique(found.record), found.numbers)

    @property
    def is_read(self) -> bool:
        """Whether all records are there, so that nothing waits; does not wait itself."""
        while self._whole is None and isinstance(self._words, ForkedItems) and self._words.ready():
            self._listen()
        return self._whole is not None

    def known_len(self) -> int | None:
        """Return how many records there are, None while they are still being read."""
        return len(self) if self.is_read else None

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of everything that was read, in its order."""
        return self._finish().digest

    @property
    def tally(self) -> Tally:
        """What `Tally.of` finds in the records."""
        whole = self._finish()
        return whole.tally if len(set(whole.ids)) == len(whole.ids) else Tally.of(self)  # equal ids are warned of

    def without_atoms(self) -> list[StructureRecord]:
        """Return the records without their coordinates, for what needs all ids, files and numbers at once."""
        return [packed.record for packed in self.packed()]

    def _begin(self, read: Callable[[], Iterable[StructureRecord]], *, forked: bool) -> None:
        self._file = file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        weakref.finalize(self, file.close)  # gives the disk space back
        self._there = 0  # records that can be read
        self._whole: _Whole | None = None

        def words() -> Iterator[int | _Whole]:
            return _write(read(), file)

        self._words = ForkedItems(words) if forked else words()

    def _finish(self) -> _Whole:
        while self._whole is None:
            self._listen()
        return self._whole

    def _has(self, place: int) -> bool:
        while self._whole is None and self._there <= place:
            self._listen()
        return place < self._there

    def _listen(self) -> None:
        word = next(self._words)
        if isinstance(word, _Whole):
            self._there, self._whole = len(word.ids), word
        else:
            self._there = word

    def _read(self, at: int) -> tuple[PackedRecord, int]:
        """Return the record at a byte of the file, and the byte after it; leaves the file's place to its writer."""
        n_head, n_numbers = _SIZES.unpack(os.pread(self._file.fileno(), _SIZES.size, at))
        data = os.pread(self._file.fileno(), n_head + n_numbers, at + _SIZES.size)
        return from_parts(data[:n_head], data[n_head:]), at + _SIZES.size + len(data)


def _write(records: Iterable[StructureRecord], file: IO[bytes]) -> Iterator[int | _Whole]:
    """Write records to a file; yield now and then how many are in it, and at the end what is known of all."""
    ids: list[str] = []
    digest, tally = hashlib.sha256(), Tally()
    for record in records:
        head, numbers = parts_of(record)
        digest.update(head + numbers)
        file.write(_SIZES.pack(len(head), len(numbers)) + head + numbers)
        ids.append(record.id)
        tally.add(record)
        if len(ids) % _BATCH == 0:
            file.flush()
            yield len(ids)
    file.flush()
    yield _Whole(ids, digest.hexdigest(), tally)
