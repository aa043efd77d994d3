"""Store records on disk in their order, so that they are read once and can be used repeatedly.

A stored record consists of the sizes of its two parts (see `bandgap.structures.packed`) and the
parts. The file has no name, so that it disappears when the process ends.
"""

import json
import os
import struct
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from bandgap.structures.ids import RepeatedIds, with_new_id
from bandgap.structures.packed import PackedRecord, from_parts, parts_of
from bandgap.structures.records import StructureRecord, Tally

_BATCH = 256  # records that are read at a time
_SIZES = struct.Struct("<qq")  # number of bytes of the JSON and of the numbers


@dataclass(frozen=True)
class _Summary:
    """Facts that are available after all records were read."""

    n: int
    new_ids: dict[int, str]  # by index, of records with a repeated id
    tally: Tally  # before ids are made unique


class Spool:
    """Records of a stream (see `stream_paths`) that are stored on disk, with unique ids.

    The stream is read as far as an iteration needs it, to its end by what needs all records. Every
    iteration reads the records from disk. All ids are in memory during reading, and afterwards only
    the repeated ones. An error of the stream is raised where its records are needed.
    """

    def __init__(self, records: Iterable[StructureRecord]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, self._file.close)  # frees the disk space
        self._lock = threading.Lock()  # of the position of the file
        self._reports = _write(records, self._file)
        self._n_available = 0  # records that can be read and whose ids are final
        self._summary: _Summary | None = None

    def __len__(self) -> int:
        return self._finish().n

    def __iter__(self) -> Iterator[StructureRecord]:
        return (packed.unpack() for packed in self.packed())

    def packed(self) -> Iterator[PackedRecord]:
        """Yield the records without creating their atoms."""
        for head, numbers, new_id in self._parts():
            packed = from_parts(head, numbers)
            if new_id is not None:
                packed = PackedRecord(with_new_id(packed.record, new_id), packed.numbers)
            yield packed

    def contents(self) -> Iterator[bytes]:
        """Yield every record as bytes, which differ if any value of the record differs."""
        for head, numbers, new_id in self._parts():
            sizes = _SIZES.pack(len(head), len(numbers))
            yield sizes + head + numbers + json.dumps(new_id).encode() + b"\n"

    @property
    def is_read(self) -> bool:
        """Whether all records have been read."""
        return self._summary is not None

    def known_len(self) -> int | None:
        """Return the number of records, None while they are still being read."""
        return len(self) if self.is_read else None

    @property
    def tally(self) -> Tally:
        """The tally of the records with unique ids."""
        summary = self._finish()
        return Tally.of(self) if summary.new_ids else summary.tally  # renaming adds warnings

    def _finish(self) -> _Summary:
        while self._summary is None:
            self._receive()
        return self._summary

    def _has(self, index: int) -> bool:
        while self._summary is None and self._n_available <= index:
            self._receive()
        return index < self._n_available

    def _receive(self) -> None:
        with self._lock:
            if self._summary is not None:  # another iteration has received it
                return
            report = next(self._reports)
            if isinstance(report, _Summary):
                self._n_available = report.n
                self._summary = report
            else:
                self._n_available = report

    def _parts(self) -> Iterator[tuple[bytes, bytes, str | None]]:
        """Yield the two parts of every record, and its new id or None.

        Several iterations can run at the same time.
        """
        index = 0
        offset = 0
        while self._has(index):
            with self._lock:
                self._file.seek(offset)
                n_head, n_numbers = _SIZES.unpack(self._file.read(_SIZES.size))
                data = self._file.read(n_head + n_numbers)
            new_id = None if self._summary is None else self._summary.new_ids.get(index)
            yield data[:n_head], data[n_head:], new_id
            index += 1
            offset += _SIZES.size + len(data)


def _write(records: Iterable[StructureRecord], file: IO[bytes]) -> Iterator[int | _Summary]:
    """Write records to a file; yield the number written at intervals, and at the end a summary.

    New ids are known only at the end. After the first repeated id, no further number is yielded.
    """
    ids = RepeatedIds()
    tally = Tally()
    for record in records:
        head, numbers = parts_of(record)
        file.write(_SIZES.pack(len(head), len(numbers)) + head + numbers)
        ids.add(record.id)
        tally.add(record)
        if ids.n % _BATCH == 0 and not ids.has_repeats:
            yield ids.n
            file.seek(0, os.SEEK_END)  # iterations have moved the position
    yield _Summary(ids.n, ids.new_ids(), tally)
