"""Structures as POSCAR, CIF and XYZ in a zip archive, read again."""

import io
import zipfile
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from bandgap.structures import read_paths
from bandgap.structures.draft import Draft
from bandgap.structures.input_files import (
    InputFormat,
    folder_names,
    input_zip,
    poscar_text,
)

CELL = np.array([[5.0, 0.0, 0.0], [1.0, 6.0, 0.0], [-0.5, 0.8, 7.0]])
POSITIONS = np.array([[0.1, 0.2, 0.3], [2.5, 3.0, 3.5], [1.0, 5.0, 1.0], [3.5, 1.0, 5.0]])
CRYSTAL = Draft(
    symbols=["O", "Zn", "O", "Zn"], positions=POSITIONS, cell=CELL, pbc=(True, True, True)
)
MOLECULE = Draft(symbols=["O", "H"], positions=np.array([[0.0, 0, 0], [0.0, 0, 0.97]]))


def unpacked(folder: Path, archive: bytes) -> Path:
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        file.extractall(folder)
    return folder


@pytest.mark.parametrize("form", get_args(InputFormat))
def test_structures_are_the_same_after_writing_and_reading(
    tmp_path: Path, form: InputFormat
) -> None:
    folder = unpacked(tmp_path, input_zip([CRYSTAL, MOLECULE], ["ZnO", "OH"], form=form))
    crystal, molecule = (
        read_paths([folder / name])[0] for name in (f"ZnO/{FILES[form]}", "OH/structure.xyz")
    )
    assert crystal.status == "ready"
    assert crystal.atoms is not None
    assert crystal.atoms.cell.cellpar() == pytest.approx(cell_parameters(CELL), abs=1e-6)
    assert sorted(distances(crystal.atoms)) == pytest.approx(sorted(distances_of(CRYSTAL)))
    assert molecule.formula == "HO"
    assert not molecule.periodic


FILES = {"poscar": "POSCAR", "cif": "structure.cif"}


def cell_parameters(cell: np.ndarray) -> list[float]:
    from ase.cell import Cell

    return list(Cell(cell).cellpar())


def distances(atoms: object) -> list[float]:
    """Return all distances between different atoms, the shortest of all copies."""
    matrix = atoms.get_all_distances(mic=True)  # type: ignore[attr-defined]
    return list(matrix[np.triu_indices(len(matrix), 1)])


def distances_of(structure: Draft) -> list[float]:
    from ase import Atoms

    return distances(
        Atoms(structure.symbols, structure.positions, cell=structure.cell, pbc=structure.pbc)
    )


def test_poscar_groups_elements_and_has_a_right_handed_cell(tmp_path: Path) -> None:
    left_handed = Draft(
        symbols=CRYSTAL.symbols,
        positions=POSITIONS,
        cell=CELL[[1, 0, 2]],
        pbc=(True, True, True),
    )
    path = tmp_path / "POSCAR"
    path.write_text(poscar_text(left_handed, "a\nb"))
    lines = path.read_text().splitlines()
    assert [lines[0], lines[5], lines[6], lines[7]] == ["a b", "O Zn", "2 2", "Direct"]
    (record,) = read_paths([path])
    assert record.atoms is not None
    assert np.linalg.det(record.atoms.cell) > 0
    assert sorted(distances(record.atoms)) == pytest.approx(sorted(distances_of(CRYSTAL)))


def test_folders_have_safe_and_different_names() -> None:
    ids = ["a/b", "a_b", "A_B", "../x", "", "Ä", "x" * 300]
    assert folder_names(ids) == [
        "a_b",
        "a_b-2",
        "A_B-3",
        "x",
        "structure",
        "structure-2",
        "x" * 100,
    ]


def test_equal_structures_give_equal_archives() -> None:
    archives = {input_zip([CRYSTAL], ["ZnO"], form="poscar", table="id\nZnO\n") for _ in range(2)}
    assert len(archives) == 1
    with zipfile.ZipFile(io.BytesIO(archives.pop())) as file:
        assert file.namelist() == ["structures.csv", "ZnO/POSCAR"]
