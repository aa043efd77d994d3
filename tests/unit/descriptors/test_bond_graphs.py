"""Properties and environments of molecules from their bonds."""

import numpy as np
import pytest
from ase.build import bulk, molecule

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.bond_graphs import (
    CONJUGATION,
    COUNTS,
    GROUPS,
    N_ENVIRONMENTS,
    N_FEATURES,
    OTHERS,
    bond_graphs,
)
from tests.unit.descriptors.samples import WRITTEN_OTHERWISE, crystal, ethanol, record
from tests.unit.descriptors.test_bond_orders import geometry
from tests.unit.structures.test_fragments import hybrid_perovskite

CONFIG = DescriptorConfig(bonds=True)
NAMES = (*COUNTS, *GROUPS, *OTHERS, *CONJUGATION)


def properties_by_name(atoms) -> dict[str, float]:
    """Return the properties of a structure by name, without its environments."""
    features = bond_graphs(atoms)
    assert features.shape == (N_FEATURES,) == (n_features(CONFIG),)
    return dict(zip(NAMES, features[:-N_ENVIRONMENTS].tolist(), strict=True))


def test_properties_of_nitrostyrene_are_those_counted_by_hand():
    values = properties_by_name(geometry("C=Cc1ccc([N+](=O)[O-])cc1"))
    numbers = {
        "CalcNumHeavyAtoms": 11,
        "CalcNumHeteroatoms": 3,
        "CalcNumAromaticRings": 1,
        "CalcNumHBD": 0,
        "CalcNumHBA": 2,
        "nitro": 1,
        "carbonyl": 0,
        "atoms": 11,
        "longest path": 7,  # from the vinyl group to an oxygen atom
        "heteroatoms": 3,
        "number of conjugated systems": 1,
    }
    for name, number in numbers.items():
        assert values[name] == pytest.approx(np.log1p(number)), name
    assert values["share of the molecule's atoms"] == pytest.approx(1.0)
    assert values["share of saturated carbon"] == 0.0


def test_saturated_molecule_has_no_conjugated_system():
    values = properties_by_name(ethanol())
    assert [values[name] for name in CONJUGATION] == [0.0, 0.0, 0.0, 0.0]
    assert values["share of saturated carbon"] == 1.0


def test_environments_are_square_roots_of_counts():
    # Two equal atoms, and one environment of one bond, which is the whole molecule for both.
    environments = bond_graphs(molecule("C2H6"))[-N_ENVIRONMENTS:]
    assert sorted(environments[environments > 0]) == pytest.approx([1.0, 2**0.5])


def test_features_are_means_over_molecules_and_maxima_of_conjugation():
    ethylene = molecule("C2H4")
    butadiene = geometry("C=CC=C")
    butadiene.positions += [30.0, 0.0, 0.0]
    methane = molecule("CH4")
    methane.positions += [0.0, 30.0, 0.0]
    one, other = bond_graphs(butadiene), bond_graphs(methane)
    both = bond_graphs(butadiene + methane)
    is_conjugation = np.zeros(N_FEATURES, dtype=bool)
    end = N_FEATURES - N_ENVIRONMENTS
    is_conjugation[end - len(CONJUGATION) : end] = True
    expected = np.where(is_conjugation, np.maximum(one, other), (one + other) / 2)
    np.testing.assert_allclose(both, expected)
    assert not np.allclose(bond_graphs(ethylene), one)


@WRITTEN_OTHERWISE
def test_features_do_not_depend_on_how_the_crystal_is_written(change):
    atoms = crystal()
    before = atoms.copy()
    np.testing.assert_allclose(bond_graphs(change(atoms)), bond_graphs(atoms), atol=1e-12)
    assert atoms == before


def test_atoms_outside_the_cell_do_not_change_the_features():
    atoms = crystal()
    moved = atoms.copy()
    moved.positions[2] += atoms.cell.array[0] - 2 * atoms.cell.array[2]
    np.testing.assert_allclose(bond_graphs(moved), bond_graphs(atoms), atol=1e-12)


def test_structure_without_a_molecule_is_left_out_with_the_reason():
    records = [record(bulk("NaCl", "rocksalt", a=5.64)), record(hybrid_perovskite())]
    described = featurize(records, CONFIG)
    assert [problem and problem.text for problem in described.problems] == [
        "has no features of bonds: it contains no molecule, a finite group of bonded non-metal "
        "atoms.",
        None,
    ]
    assert np.isfinite(described.features[1]).all()
