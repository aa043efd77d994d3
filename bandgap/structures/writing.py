"""Structures with numbers beside them as extXYZ text, the format that ASE, OVITO and others read.

ASE's writer quotes keys and texts of the comment line; what is not coordinates comes from the caller alone, so that no
property of an uploaded file passes through unseen.
"""

import io
from collections.abc import Iterator, Mapping, Sequence

from ase import Atoms
from ase.io.extxyz import write_extxyz

from bandgap.structures.records import InfoValue, StructureRecord


def extxyz_blocks(records: Sequence[StructureRecord], comments: Sequence[Mapping[str, InfoValue]]) -> Iterator[str]:
    """Yield one extXYZ block for every record that has atoms, its key=value pairs in the comment line.

    Positions and cell are in Angstrom. Refused records have no coordinates and are left out, empty texts as well.
    """
    for record, comment in zip(records, comments, strict=True):
        if record.atoms is None:
            continue
        atoms = record.atoms
        bare = Atoms(atoms.numbers, atoms.positions, cell=atoms.cell, pbc=atoms.pbc)  # type: ignore[no-untyped-call]
        cells = {key: _safe(value) if isinstance(value, str) else value for key, value in comment.items()}
        bare.info = {key: value for key, value in cells.items() if value != ""}
        text = io.StringIO()
        write_extxyz(text, [bare])
        yield text.getvalue()


def _safe(text: str) -> str:
    """Return text on one line; ASE's reader drops backslashes, which its writer leaves as they are."""
    return " ".join(text.replace("\\", "/").split())
