"""Levels of the molecules of a crystal, computed alone with their charges."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import bulk, molecule

from bandgap.descriptors import featurize
from tests.unit.descriptors.samples import CONFIGS, ethanol, record
from tests.unit.structures.test_fragments import ammonium, hybrid_perovskite

pytest.importorskip("tblite")

from bandgap.descriptors.molecule_levels import molecule_levels_eV
from bandgap.descriptors.tight_binding import NoLevelsError, electrons, levels_eV

CONFIG = replace(
    CONFIGS["k1 k2 per heavy atom"],
    species=("H", "C", "N", "O", "Na", "Cl", "I", "Pb"),
    levels="GFN1-xTB-molecules",
)


def test_levels_of_a_hybrid_crystal_are_those_of_its_ion_with_its_charge():
    ion = ammonium("H3CNH2")
    state = electrons(ion.numbers, ion.positions, method="GFN1-xTB", charge=1)
    levels = molecule_levels_eV(hybrid_perovskite(), method="GFN1-xTB")
    np.testing.assert_allclose(levels, [state.gap_eV, state.homo_eV, state.lumo_eV], atol=1e-5)


def test_levels_of_a_molecule_are_those_of_the_whole_structure():
    np.testing.assert_allclose(
        molecule_levels_eV(ethanol(), method="GFN1-xTB"),
        levels_eV(ethanol(), method="GFN1-xTB"),
        atol=1e-6,
    )


def test_levels_do_not_change_in_a_supercell_and_with_the_order_of_atoms():
    atoms = hybrid_perovskite()
    levels = molecule_levels_eV(atoms, method="GFN1-xTB")
    order = np.random.default_rng(0).permutation(len(atoms))
    for same in (atoms[order], atoms.repeat((1, 2, 1))):
        np.testing.assert_allclose(molecule_levels_eV(same, method="GFN1-xTB"), levels, atol=1e-5)


def test_highest_homo_and_lowest_lumo_of_several_molecules_are_combined():
    ethylene = molecule("C2H4")
    methane = molecule("CH4")
    methane.positions += [30.0, 0.0, 0.0]
    one, other = (levels_eV(atoms, method="GFN1-xTB") for atoms in (ethylene, methane))
    combined = molecule_levels_eV(ethylene + methane, method="GFN1-xTB")
    expected = [min(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2])]
    np.testing.assert_allclose(combined, expected, atol=1e-5)


def test_structure_without_a_molecule_is_refused_with_the_reason():
    salt = bulk("NaCl", "rocksalt", a=5.64)
    with pytest.raises(NoLevelsError, match="it contains no molecule"):
        molecule_levels_eV(salt, method="GFN1-xTB")
    described = featurize([record(salt), record(hybrid_perovskite())], CONFIG)
    assert [problem and problem.text for problem in described.problems] == [
        "has no GFN1-xTB levels: it contains no molecule, a finite group of bonded non-metal "
        "atoms.",
        None,
    ]
    levels = molecule_levels_eV(hybrid_perovskite(), method="GFN1-xTB")
    np.testing.assert_allclose(described.features[1, -3:], levels, rtol=1e-5)
