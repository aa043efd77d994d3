"""Records on disk, in their order: what is read once and needed twice, however many structures there are.

A record is a line of JSON and the numbers of its atoms; the file has no name, so that nothing is left of it when the
process ends.
"""

import dataclasses
import hashlib
import json
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from ase import Atoms

from bandgap.structures.reading import UniqueIds
from bandgap.structures.records import Problem, StructureRecord


class Spool:
    """Records that were read from a stream (`stream_paths`); every walk through it gives them anew, ids made unique.

    Besides the file it holds the ids.
    """

    def __init__(self, records: Iterable[StructureRecord]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        weakref.finalize(self, self._file.close)  # gives the disk space back
        self._ids: list[str] = []
        self._digest = hashlib.sha256()
        for record in records:
            self._ids.append(record.id)
            self._write(record)
        self._file.flush()

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[StructureRecord]:
        unique, at = UniqueIds(set(self._ids)), 0
        for _ in range(len(self)):
            self._file.seek(at)
            record = self._read()
            at = self._file.tell()
            yield unique(record)

    @property
    def digest(self) -> str:
        """SHA-256 (hexadecimal) of everything that was read, in its order."""
        return self._digest.hexdigest()

    def without_atoms(self) -> list[StructureRecord]:
        """Return the records without their coordinates, for what needs all ids, files and numbers at once."""
        return [dataclasses.replace(record, atoms=None) for record in self]

    def _write(self, record: StructureRecord) -> None:
        atoms = record.atoms
        head: dict[str, Any] = {
            "id": record.id,
            "file": record.file,
            "format": record.format,
            "problems": [(problem.severity, problem.text) for problem in record.problems],
            "info": dict(record.info),
            "n_atoms": None if atoms is None else len(atoms),
        }
        arrays = () if atoms is None else (atoms.numbers, atoms.positions, atoms.cell.array, atoms.pbc)
        bytes_ = [np.ascontiguousarray(array, dtype=np.float64).tobytes() for array in arrays]
        data = b"".join([json.dumps(head).encode(), b"\n", *bytes_])
        self._digest.update(data)
        self._file.write(data)

    def _read(self) -> StructureRecord:
        head = json.loads(self._file.readline())
        n = head["n_atoms"]
        problems = tuple(Problem(severity, text) for severity, text in head["problems"])
        return StructureRecord(
            head["id"], head["file"], head["format"], None if n is None else self._atoms(n), problems, head["info"]
        )

    def _atoms(self, n: int) -> Atoms:
        numbers = np.frombuffer(self._file.read(8 * n)).astype(int)
        positions = np.frombuffer(self._file.read(24 * n)).reshape(n, 3)
        cell, pbc = np.frombuffer(self._file.read(72)).reshape(3, 3), np.frombuffer(self._file.read(24)) != 0
        return Atoms(numbers=numbers, positions=positions, cell=cell, pbc=pbc)  # type: ignore[no-untyped-call]
