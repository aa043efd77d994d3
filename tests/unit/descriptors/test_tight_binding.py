"""Electron levels as last features of molecules and crystals, cached, and structures without."""

from dataclasses import replace

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.descriptors import (
    feature_blocks,
    featurize,
)
from tests.unit.descriptors.samples import CONFIGS, crystal, ethanol, record

pytest.importorskip("tblite")

from bandgap.descriptors.tight_binding import MAX_ATOMS, electrons, levels_eV, repeats

PLAIN = CONFIGS["k1 k2 per heavy atom"]
CONFIG = replace(PLAIN, levels="GFN1-xTB")


def test_levels_are_the_last_three_features_of_molecule_and_crystal():
    records = [record(ethanol()), record(crystal())]
    described = featurize(records, CONFIG)
    plain = featurize(records, PLAIN)
    np.testing.assert_array_equal(described.features[:, :-3], plain.features)
    for row, atoms in zip(described.features, (ethanol(), crystal()), strict=True):
        cell = atoms.cell.array if atoms.pbc.any() else None
        state = electrons(atoms.numbers, atoms.positions, method="GFN1-xTB", cell=cell)
        np.testing.assert_allclose(
            row[-3:], [state.gap_eV, state.homo_eV, state.lumo_eV], rtol=1e-5
        )
        assert 0 < row[-3] == pytest.approx(row[-1] - row[-2], rel=1e-4)


def test_double_bond_has_a_smaller_gap():
    ethylene, ethane = (molecule(name) for name in ("C2H4", "C2H6"))
    assert levels_eV(ethylene, method="GFN1-xTB")[0] < levels_eV(ethane, method="GFN1-xTB")[0]


def salt(**cell: float) -> Atoms:
    return bulk("NaCl", "rocksalt", a=cell.get("a", 5.64))


def test_small_cell_is_repeated_up_to_the_largest_number_of_atoms():
    assert salt().cell.lengths() == pytest.approx([3.99] * 3, abs=0.01)
    assert repeats(salt()) == (2, 2, 2)
    # Its edges have 7.07 angstrom.
    assert repeats(salt(a=10.0)) == (1, 1, 1)
    crowded = Atoms("H28", positions=np.zeros((28, 3)), cell=(3.0, 3.5, 9.0), pbc=True)
    assert repeats(crowded) == (1, 2, 1) or repeats(crowded) == (2, 1, 1)
    assert np.prod(repeats(crowded)) * len(crowded) <= MAX_ATOMS
    crowded.pbc = (False, True, True)
    assert repeats(crowded) == (1, 2, 1)
    assert repeats(ethanol()) == (1, 1, 1)


def test_levels_of_a_supercell_are_those_of_a_denser_mesh_and_a_molecule_is_not_repeated():
    """The Gamma point of the supercell is the same for the primitive and the repeated cell."""
    gamma, dense = (
        levels_eV(salt(), method="GFN1-xTB", supercell=supercell) for supercell in (False, True)
    )
    assert abs(dense[0] - gamma[0]) > 0.05
    np.testing.assert_allclose(
        dense, levels_eV(salt().repeat((2, 2, 2)), method="GFN1-xTB"), atol=1e-6
    )
    pair = [
        levels_eV(ethanol(), method="GFN1-xTB", supercell=supercell) for supercell in (False, True)
    ]
    np.testing.assert_array_equal(*pair)


def test_levels_of_a_supercell_differ_from_those_at_gamma():
    config = replace(CONFIG, species=("Na", "Cl"))
    wide = replace(config, levels="GFN1-xTB-supercell")
    dense, gamma = (featurize([record(salt())], c).features[0, -3:] for c in (wide, config))
    np.testing.assert_allclose(
        dense, levels_eV(salt(), method="GFN1-xTB", supercell=True), rtol=1e-5
    )
    assert not np.allclose(dense, gamma)
    assert feature_blocks(wide)[-1][0] == "GFN1-xTB-supercell gap, HOMO, LUMO"


def test_structure_without_levels_is_refused_with_the_reason():
    rng = np.random.default_rng(0)
    # Its self-consistent field does not converge.
    scattered = Atoms("O8", positions=3.0 * rng.normal(size=(8, 3)))
    atom = Atoms("H", positions=np.zeros((1, 3)))
    described = featurize([record(scattered), record(ethanol()), record(atom)], CONFIG)
    reasons = [problem and problem.text for problem in described.problems]
    assert reasons == [
        "has no GFN1-xTB levels: the calculation did not converge; "
        "check geometry, hydrogens and charge.",
        None,
        "has no GFN1-xTB levels: it has no pair of electrons, or no empty level.",
    ]
    assert np.isfinite(described.features[1]).all()
    assert np.isnan(described.features[[0, 2]]).all()
