"""Structures that a run learned from or was tested on, told by their geometry."""

from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.foundation.errors import ArtifactError
from bandgap.runs.known_structures import N_NEAREST, load_known, save_known
from bandgap.storage.manifests import KNOWN
from bandgap.structures import StructureRecord
from bandgap.structures.near_copies import NearCopies

GAAS = bulk("GaAs", "zincblende", 5.65)


def record(atoms: Atoms | None, id: str = "a") -> StructureRecord:
    return StructureRecord(id, "", "", atoms)


def in_another_cell(atoms: Atoms) -> Atoms:
    """Return a turned and shifted supercell with its atoms in another order."""
    large = atoms.repeat((2, 1, 3))
    large.rotate(40, (1, 2, 3), rotate_cell=True)
    large.positions += 0.3
    large.wrap()
    return large[np.random.default_rng(0).permutation(len(large))]


def strained(atoms: Atoms, share: float) -> Atoms:
    result = atoms.copy()
    result.set_cell(atoms.cell.array * (1 + share), scale_atoms=True)
    return result


def test_copies_in_other_cells_are_told_and_strained_ones_are_new(tmp_path: Path) -> None:
    records = [
        record(GAAS, "gaas"),
        record(molecule("C6H6"), "benzene"),
        record(strained(GAAS, 0.02), "tested"),
    ]
    save_known(tmp_path, NearCopies(records, n_nearest=N_NEAREST), n_learned=2)
    structures = load_known(tmp_path)
    assert structures is not None
    records = [
        record(in_another_cell(GAAS)),
        record(molecule("C6H6")[::-1]),
        record(in_another_cell(strained(GAAS, 0.02))),
        record(strained(GAAS, 0.01)),
        record(bulk("GaAs", "wurtzite", 3.995, 6.524)),
        record(bulk("GaP", "zincblende", 5.65)),
        record(None),
    ]
    numbers = structures.distances.copied(records)
    assert numbers.tolist() == [0, 1, 2, -1, -1, -1, -1]
    sentences = [structures.sentence(number) for number in numbers]
    assert "as gaas:" in sentences[0] and "as benzene:" in sentences[1]
    assert not any(sentences[2:])


@pytest.mark.parametrize("content", [b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KNOWN).write_bytes(content)
    with pytest.raises(ArtifactError, match=KNOWN):
        load_known(tmp_path)
