"""Frontier levels of molecules by Hückel's method."""

from dataclasses import replace

import numpy as np
import pytest
from ase.build import bulk

from bandgap.descriptors import featurize
from bandgap.descriptors.bond_orders import NoBondsError
from bandgap.descriptors.electron_levels import (
    electron_levels,
    n_levels,
    refuse_tight_binding_gaps,
)
from bandgap.descriptors.huckel import ALPHA_EV, BETA_EV, SIGMA, huckel_levels_eV, pi_orbitals
from bandgap.foundation.errors import InputError
from tests.unit.descriptors.samples import CONFIGS, WRITTEN_OTHERWISE, crystal, ethanol, record
from tests.unit.descriptors.test_bond_orders import geometry
from tests.unit.structures.test_fragments import hybrid_perovskite

CONFIG = replace(
    CONFIGS["k1 k2 per heavy atom"],
    species=("H", "C", "N", "O", "Na", "Cl", "I", "Pb"),
    levels="Hueckel-molecules",
)


def in_beta(atoms) -> list[float]:
    """Return gap, HOMO and LUMO in units of beta, the levels relative to alpha."""
    gap, homo, lumo = huckel_levels_eV(atoms)
    return [gap / -BETA_EV, (homo - ALPHA_EV) / BETA_EV, (lumo - ALPHA_EV) / BETA_EV]


@pytest.mark.parametrize(
    ("smiles", "homo", "lumo"),
    [
        ("C=C", 1.0, -1.0),
        ("C=CC=C", (5**0.5 - 1) / 2, -(5**0.5 - 1) / 2),
        ("c1ccccc1", 1.0, -1.0),
        ("c1ccc2ccccc2c1", 0.618, -0.618),
        ("c1ccc2cccc-2cc1", 0.4773, -0.4004),  # azulene, which is not alternant
        ("CC", SIGMA, -SIGMA),
        ("CF", SIGMA, -SIGMA),  # The lone pairs of fluorine are deeper than sigma orbitals.
        # h of nitrogen and of carbon 0.51 and 0, k 1.02: the roots of x^2 - 0.51 x - 1.02^2.
        ("C=N", (0.51 + (0.51**2 + 4 * 1.02**2) ** 0.5) / 2, None),
        # A lone pair without neighbours in the pi system.
        ("CN", 1.37, -SIGMA),
    ],
)
def test_levels_are_those_of_the_textbook(smiles: str, homo: float, lumo: float | None):
    if smiles == "C=N":
        lumo = 0.51 - homo
    gap, *levels = in_beta(geometry(smiles))
    assert levels == pytest.approx([homo, lumo], abs=2e-4)
    assert gap == pytest.approx(homo - lumo, abs=4e-4)


def electrons_of(smiles: str) -> dict[int, int]:
    """Return the pi electrons of each atom that gives any or has a pi orbital."""
    from rdkit.Chem import MolFromSmiles

    counts: dict[int, int] = {}
    for orbital in pi_orbitals(MolFromSmiles(smiles)):
        counts[orbital.atom] = counts.get(orbital.atom, 0) + orbital.electrons
    return counts


@pytest.mark.parametrize(
    ("smiles", "electrons"),
    [
        ("[nH]1cccc1", {0: 2, 1: 1, 2: 1, 3: 1, 4: 1}),
        ("n1ccccc1", dict.fromkeys(range(6), 1)),
        # Boron takes part where it is bonded to a pi system.
        ("B(C)(C)C=C", {0: 0, 3: 1, 4: 1}),
        ("B(C)(C)C", {}),
        # Oxygen of sulfones and phosphates has lone pairs, and the centre has no pi orbital.
        ("CS(=O)(=O)C", {2: 2, 3: 2}),
        ("COP(=O)(OC)OC", {1: 2, 3: 2, 4: 2, 6: 2}),
        ("CP(C)(C)=NC", {4: 2}),
        ("CS(=O)C", {1: 1, 2: 1}),
        # Two perpendicular orbitals of one atom.
        ("O=C=O", {0: 1, 1: 2, 2: 1}),
        ("CN=[N+]=[N-]", {1: 1, 2: 2, 3: 1}),
        ("[C-]#[O+]", {0: 1, 1: 1}),
        ("C=C[CH2-]", {0: 1, 1: 1, 2: 2}),
        ("C=C[CH2+]", {0: 1, 1: 1, 2: 0}),
        ("[O-]Cl(=O)(=O)=O", {0: 2, 2: 2, 3: 2, 4: 2}),
    ],
)
def test_electrons_that_each_atom_gives(smiles: str, electrons: dict[int, int]):
    assert electrons_of(smiles) == electrons


@pytest.mark.parametrize("smiles", ["CS(=O)(=O)C", "COP(=O)(OC)OC"])
def test_molecule_without_a_pi_bond_has_the_gap_of_its_sigma_orbitals(smiles: str):
    assert in_beta(geometry(smiles)) == pytest.approx([2 * SIGMA, SIGMA, -SIGMA])


@pytest.mark.parametrize(
    ("smiles", "without_second_bond"), [("C=C=C", "C=C"), ("C=CC=C=C", "C=CC=C")]
)
def test_perpendicular_double_bonds_are_not_conjugated(smiles: str, without_second_bond: str):
    expected = in_beta(geometry(without_second_bond))
    assert in_beta(geometry(smiles)) == pytest.approx(expected, abs=1e-9)


def test_levels_of_several_molecules_are_combined():
    butadiene = geometry("C=CC=C")
    amine = geometry("CN")
    amine.positions += [30.0, 0.0, 0.0]
    one, other = huckel_levels_eV(butadiene), huckel_levels_eV(amine)
    expected = [min(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2])]
    np.testing.assert_allclose(huckel_levels_eV(butadiene + amine), expected)


@WRITTEN_OTHERWISE
def test_levels_do_not_depend_on_how_the_crystal_is_written(change):
    atoms = crystal()
    before = atoms.copy()
    np.testing.assert_allclose(huckel_levels_eV(change(atoms)), huckel_levels_eV(atoms), atol=1e-12)
    assert atoms == before


def test_ion_inside_a_framework_has_levels():
    # Methylammonium has neither a pi system nor a lone pair.
    assert in_beta(hybrid_perovskite()) == pytest.approx([2 * SIGMA, SIGMA, -SIGMA])


def test_structure_without_a_molecule_is_left_out_with_the_reason():
    salt = bulk("NaCl", "rocksalt", a=5.64)
    with pytest.raises(NoBondsError, match="it contains no molecule"):
        huckel_levels_eV(salt)
    described = featurize([record(salt), record(ethanol())], CONFIG)
    assert [problem and problem.text for problem in described.problems] == [
        "has no levels by Hückel's method: it contains no molecule, a finite group of bonded "
        "non-metal atoms.",
        None,
    ]
    np.testing.assert_allclose(
        described.features[1, -3:], electron_levels(ethanol(), "Hueckel-molecules"), rtol=1e-6
    )


def test_levels_of_both_ways_are_those_of_tight_binding_and_then_of_bonds():
    pytest.importorskip("tblite")
    both = electron_levels(ethanol(), "GFN1-xTB-and-Hueckel")
    assert both.shape == (n_levels("GFN1-xTB-and-Hueckel"),) == (6,)
    np.testing.assert_allclose(both[:3], electron_levels(ethanol(), "GFN1-xTB"))
    np.testing.assert_allclose(both[3:], electron_levels(ethanol(), "Hueckel-molecules"))
    with pytest.raises(InputError, match="would nearly be the answer"):
        refuse_tight_binding_gaps("GFN1-xTB-and-Hueckel", "GFN1-xTB")
