"""Convert records to bytes and back, to store them on disk or to send them to another process.

A record becomes a line of JSON and the numbers of its atoms as float64. To pass on these bytes is
many times faster than to create or pickle `ase.Atoms`.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from ase import Atoms

from bandgap.structures.records import Problem, StructureRecord


@dataclass(frozen=True, eq=False)
class PackedRecord:
    """A record without atoms, and its atoms as bytes."""

    record: StructureRecord
    # Atomic numbers, positions, cell and pbc as float64; None for a refused structure.
    numbers: bytes | None

    def unpack(self) -> StructureRecord:
        """Return the record with its atoms."""
        if self.numbers is None:
            return self.record
        return dataclasses.replace(self.record, atoms=_atoms(np.frombuffer(self.numbers)))


def unpack(record: StructureRecord | PackedRecord) -> StructureRecord:
    """Return a record with its atoms, from a packed or a complete record."""
    return record.unpack() if isinstance(record, PackedRecord) else record


def parts_of(record: StructureRecord) -> tuple[bytes, bytes]:
    """Return a record's line of JSON, and the numbers of its atoms as bytes of float64."""
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
    numbers = b"".join(np.ascontiguousarray(array, dtype=np.float64).tobytes() for array in arrays)
    return json.dumps(head).encode() + b"\n", numbers


def from_parts(head: bytes, numbers: bytes) -> PackedRecord:
    """Return the packed record from the two values of `parts_of`."""
    values = json.loads(head)
    problems = tuple(Problem(severity, text) for severity, text in values["problems"])
    record = StructureRecord(
        values["id"], values["file"], values["format"], None, problems, values["info"]
    )
    return PackedRecord(record, None if values["n_atoms"] is None else numbers)


def _atoms(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> Atoms:
    n = (numbers.size - 12) // 4
    return Atoms(  # type: ignore[no-untyped-call]
        numbers=numbers[:n].astype(int),
        positions=numbers[n : 4 * n].reshape(n, 3),
        cell=numbers[4 * n : 4 * n + 9].reshape(3, 3),
        pbc=numbers[-3:] != 0,
    )
