"""Geometries and gaps of molecules with known values. Needs the extra `datagen`."""

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("tblite")

from data.making.xtb import GenerationFailed, checked_gap, conformer, electrons


def test_conformer_is_reproducible_and_centred():
    one = conformer("c1ccccc1C=O", 5)
    two = conformer("c1ccccc1C=O", 5)
    assert np.array_equal(one.positions, two.positions)
    assert one.positions.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-4)
    assert sorted(one.numbers) == [1] * 6 + [6] * 7 + [8]


def test_conformer_of_benzene_has_known_bond_lengths():
    shape = conformer("c1ccccc1", 1)
    distances = np.linalg.norm(shape.positions[:6, None] - shape.positions[None, :6], axis=-1)
    assert np.sort(distances, axis=1)[:, 1:3] == pytest.approx(np.full((6, 2), 1.39), abs=0.02)


def test_gap_of_conjugated_molecules_decreases_with_length():
    shapes = [
        conformer(smiles, 1) for smiles in ("c1ccccc1", "c1ccc2ccccc2c1", "c1ccc2cc3ccccc3cc2c1")
    ]
    gaps = [electrons(s.numbers, s.positions, method="GFN2-xTB").gap_eV for s in shapes]
    assert gaps == sorted(gaps, reverse=True)
    # Benzene; GFN2-xTB underestimates gaps, as GGA functionals do.
    assert gaps[0] == pytest.approx(4.83, abs=0.1)


def test_gap_of_a_molecule_in_a_large_cell_is_that_of_the_molecule():
    shape = conformer("c1ccsc1", 1)
    isolated = electrons(shape.numbers, shape.positions, method="GFN1-xTB")
    boxed = electrons(shape.numbers, shape.positions, method="GFN1-xTB", cell=25.0 * np.eye(3))
    assert boxed.gap_eV == pytest.approx(isolated.gap_eV, abs=0.01)
    assert isolated.charges.sum() == pytest.approx(0.0, abs=1e-6)


def test_gap_of_a_crystal_does_not_depend_on_lattice_translations():
    shape = conformer("c1ccoc1", 1)
    cell = np.diag([7.0, 7.5, 6.0])
    moved = shape.positions + cell[0] - cell[2]
    original, translated = (
        electrons(shape.numbers, x, method="GFN1-xTB", cell=cell) for x in (shape.positions, moved)
    )
    assert original.gap_eV == pytest.approx(translated.gap_eV, abs=1e-5)


def test_gap_below_the_limit_is_a_failure():
    shape = conformer("c1ccccc1", 1)
    state = electrons(shape.numbers, shape.positions, method="GFN2-xTB")
    closed = type(state)(homo_eV=-9.0, lumo_eV=-8.9, charges=state.charges)
    with pytest.raises(GenerationFailed, match="gap below 0.2 eV"):
        checked_gap(closed)
