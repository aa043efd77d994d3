"""Records on disk, in their order: what is read once and needed twice, however many structures there are.

A record is the sizes of its two parts (`packed`) and these; the file has no name, so that nothing
is left of it when the process ends. Where a process may be forked, another can read while this one goes on with
something else (`Spool.ahead`).
"""

import json
import os
import struct
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Self

from bandgap.foundation.forks import ForkedItems, can_fork
from bandgap.structures.ids import RepeatedIds, renamed
from bandgap.structures.packed import PackedRecord, from_parts, parts_of
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
    """What is known once all records are read."""

    n: int
    new_ids: dict[int, str]  # by place, of records whose own id was there before
    tally: Tally  # of records with the ids that they have by themselves


class Spool:
    """Records that were read from a stream (`stream_paths`); every walk through it gives them anew, ids made unique.

    While it reads it holds the ids (`RepeatedIds`), and afterwards only those that came twice.
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
        return self._finish().n

    def __iter__(self) -> Iterator[StructureRecord]:
        return (packed.unpacked() for packed in self.packed())

    def packed(self) -> Iterator[PackedRecord]:
        """Walk through the records without making their atoms."""
        for head, numbers, new_id in self._parts():
            found = from_parts(head, numbers)
            yield (
                found
                if new_id is None
                else PackedRecord(renamed(found.record, new_id), found.numbers)
            )

    def contents(self) -> Iterator[bytes]:
        """Walk through the records as bytes, which are others where anything of a record is, as is its id here."""
        for head, numbers, new_id in self._parts():
            yield (
                _SIZES.pack(len(head), len(numbers))
                + head
                + numbers
                + json.dumps(new_id).encode()
                + b"\n"
            )

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
    def tally(self) -> Tally:
        """What `Tally.of` finds in the records."""
        whole = self._finish()
        return Tally.of(self) if whole.new_ids else whole.tally  # equal ids are warned of

    def heads(self) -> "Heads":
        """Return the records without their coordinates, for what asks all of them for ids, files or numbers."""
        return Heads(self)

    def _begin(self, read: Callable[[], Iterable[StructureRecord]], *, forked: bool) -> None:
        self._file = file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        weakref.finalize(self, file.close)  # gives the disk space back
        self._there = 0  # records that can be read, and whose ids are known
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
            self._there, self._whole = word.n, word
        else:
            self._there = word

    def _parts(self) -> Iterator[tuple[bytes, bytes, str | None]]:
        """Walk through the parts of records and the ids of those that get a new one; leaves the file's place alone."""
        place, at, file = 0, 0, self._file.fileno()
        while self._has(place):
            n_head, n_numbers = _SIZES.unpack(os.pread(file, _SIZES.size, at))
            data = os.pread(file, n_head + n_numbers, at + _SIZES.size)
            yield (
                data[:n_head],
                data[n_head:],
                None if self._whole is None else self._whole.new_ids.get(place),
            )
            place, at = place + 1, at + _SIZES.size + len(data)


class Heads:
    """A spool's records without their coordinates (`Records`); every walk reads them anew, and holds one of them."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return len(self._spool)

    def __iter__(self) -> Iterator[StructureRecord]:
        return (packed.record for packed in self._spool.packed())


def _write(records: Iterable[StructureRecord], file: IO[bytes]) -> Iterator[int | _Whole]:
    """Write records to a file; yield now and then how many are in it, and at the end what is known of all.

    Which new id one gets is known at the end, so that from the first on that needs one only the end is told.
    """
    ids, tally = RepeatedIds(), Tally()
    for record in records:
        head, numbers = parts_of(record)
        file.write(_SIZES.pack(len(head), len(numbers)) + head + numbers)
        ids.add(record.id)
        tally.add(record)
        if ids.n % _BATCH == 0 and not ids.has_repeats:
            file.flush()
            yield ids.n
    file.flush()
    yield _Whole(ids.n, ids.new_ids(), tally)
