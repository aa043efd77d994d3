"""Records as bytes: of a file on the disk, and on their way to another process.

A record is a line of JSON and the numbers of its atoms. Making atoms of these, and pickling atoms, takes many times
what passing the bytes on takes.
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
    """A record whose atoms are still bytes: `record` has none."""

    record: StructureRecord
    numbers: (
        bytes | None
    )  # float64: atomic numbers, positions, cell, pbc; None of a refused structure

    def unpacked(self) -> StructureRecord:
        """Return the record with its atoms."""
        if self.numbers is None:
            return self.record
        return dataclasses.replace(self.record, atoms=_atoms(np.frombuffer(self.numbers)))


def unpacked(record: StructureRecord | PackedRecord) -> StructureRecord:
    """Return the record, whether it is packed or not."""
    return record.unpacked() if isinstance(record, PackedRecord) else record


def parts_of(record: StructureRecord) -> tuple[bytes, bytes]:
    """Return a record's line of JSON, and the numbers of its atoms as float64."""
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
    """Return the record of what `parts_of` gave."""
    found = json.loads(head)
    problems = tuple(Problem(severity, text) for severity, text in found["problems"])
    record = StructureRecord(
        found["id"], found["file"], found["format"], None, problems, found["info"]
    )
    return PackedRecord(record, None if found["n_atoms"] is None else numbers)


def _atoms(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> Atoms:
    n = (numbers.size - 12) // 4
    places, cell, pbc = (
        numbers[n : 4 * n].reshape(n, 3),
        numbers[4 * n : 4 * n + 9].reshape(3, 3),
        numbers[-3:] != 0,
    )
    return Atoms(numbers=numbers[:n].astype(int), positions=places, cell=cell, pbc=pbc)  # type: ignore[no-untyped-call]
