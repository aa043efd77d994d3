"""extXYZ text of structures: what ASE and our own reader find in it."""

import io

import ase.io
import numpy as np
import pytest
from ase import Atoms

from bandgap.structures import StructureRecord, read_structures
from bandgap.structures.formats.xyz import extxyz_blocks
from bandgap.structures.records import Problem


def crystal(name: str) -> StructureRecord:
    atoms = Atoms(
        "OH2",
        [[0.1, 0.2, 0.3], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
        cell=[[5, 0, 0], [1, 6, 0], [0, 0, 7]],
    )
    atoms.pbc = True
    atoms.info["secret"] = "of the upload"
    return StructureRecord(name, f"{name}.cif", "CIF", atoms)


def written(records: list[StructureRecord], **comment: float | str) -> str:
    return "".join(extxyz_blocks(records, [{"id": record.id, **comment} for record in records]))


def test_written_coordinates_cell_and_numbers_are_read_back() -> None:
    record = crystal("urea")
    back = ase.io.read(io.StringIO(written([record], predicted_gap_eV=4.25)), format="extxyz")
    np.testing.assert_allclose(back.positions, record.atoms.positions, atol=1e-8)
    np.testing.assert_allclose(back.cell.array, record.atoms.cell.array)
    assert back.pbc.all() and list(back.symbols) == ["O", "H", "H"]
    assert back.info == {"id": "urea", "predicted_gap_eV": 4.25}


@pytest.mark.parametrize("name", ["=1+1", 'a "b" c', "x=y, {z}", "[1,2]", "naïve", "two\nlines"])
def test_names_stay_text_on_one_line(name: str) -> None:
    text = written([crystal(name)], warning='Contains "Br"')
    assert len(text.splitlines()) == 5
    (record,) = read_structures(text.encode(), "p.extxyz")
    assert record.id == " ".join(name.split()) and record.n_atoms == 3
    assert record.info["warning"] == 'Contains "Br"'


def test_refused_records_and_empty_texts_are_left_out() -> None:
    refused = StructureRecord("broken", "broken.cif", "", None, (Problem("refused", "no atoms"),))
    text = written([refused, crystal("water")], warning="")
    assert "broken" not in text and "warning" not in text and "secret" not in text
