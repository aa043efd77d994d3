"""Keys of structures and molecules: what changes them, what does not, and what a source stores."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.sources.near_copies import has_distances, near_copies_in_source
from bandgap.sources.overlap import (
    Overlap,
    keys_of,
    load_keys,
    molecule_keys,
    overlap,
    save_keys,
)
from bandgap.structures import StructureRecord
from bandgap.structures.near_copies import NearCopies, StoredDistances

WATER = [8187428303974536880]
ARGON = [3829144481315130498]


def record(atoms, name="a"):
    return StructureRecord(name, f"{name}.xyz", "XYZ", atoms)


def moved(atoms, *, seed=0):
    """Return the molecule moved, rotated and slightly bent, with its atoms in another order."""
    rng = np.random.default_rng(seed)
    new = atoms[rng.permutation(len(atoms))]
    new.rotate(rng.uniform(0, 360), rng.normal(size=3))
    new.positions += rng.normal(size=3) * 5 + rng.normal(scale=0.02, size=new.positions.shape)
    return new


def crystal(*names, spacing=9.0):
    """Return molecules in a periodic cell that its faces cut."""
    molecules = [molecule(name) for name in names]
    for k, atoms in enumerate(molecules):
        atoms.positions += np.array([k * spacing, 0.1, 0.1])
    joined = sum(molecules[1:], molecules[0])
    joined.set_cell([spacing * len(molecules), 11.0, 12.0])
    joined.set_pbc(True)
    joined.wrap()
    return joined


@pytest.mark.parametrize("name", ["C6H6", "CH3CH2OH", "C5H8", "CH3COCl", "H2O"])
def test_key_of_a_molecule_does_not_depend_on_position_order_and_small_distortions(name):
    atoms = molecule(name)
    assert len(molecule_keys(atoms)) == 1
    assert (molecule_keys(moved(atoms)) == molecule_keys(atoms)).all()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("CH3CH2OH", "CH3OCH3"),
        ("butadiene", "2-butyne"),
        ("isobutane", "trans-butane"),
        ("C3H6_Cs", "C3H6_D3h"),
    ],
    ids=[
        "ethanol, dimethyl ether",
        "butadiene, butyne",
        "isobutane, butane",
        "propene, cyclopropane",
    ],
)
def test_isomers_have_different_keys(first, second):
    assert molecule(first).get_chemical_formula() == molecule(second).get_chemical_formula()
    assert not np.isin(molecule_keys(molecule(first)), molecule_keys(molecule(second))).any()


def test_molecule_in_a_crystal_has_the_key_of_the_isolated_molecule():
    keys = molecule_keys(crystal("C6H6", "CH3CH2OH"))
    isolated = np.concatenate([molecule_keys(molecule(name)) for name in ("C6H6", "CH3CH2OH")])
    assert sorted(keys) == sorted(isolated)


def test_keys_do_not_change_between_versions():
    """Sources store keys: with another key the same molecule would not be recognised."""
    assert molecule_keys(molecule("H2O")).tolist() == WATER
    assert molecule_keys(Atoms("Ar")).tolist() == ARGON


def test_overlap_counts_structures_and_molecules():
    benzene = molecule("C6H6")
    water = molecule("H2O")
    keys = keys_of([record(benzene), record(water)])
    target = [
        record(benzene.copy()),
        record(crystal("C6H6", "CH3CH2OH")),
        record(molecule("CH4")),
        refused(),
    ]
    assert overlap(keys, target) == Overlap(4, 1, 2)


def refused():
    return StructureRecord("b", "b.cif", "CIF", None)


def test_stored_keys_are_loaded_as_they_were(tmp_path):
    assert load_keys(tmp_path) is None
    keys = keys_of([record(molecule("C6H6")), refused()])
    save_keys(tmp_path, keys)
    again = load_keys(tmp_path)
    assert (again.structures == keys.structures).all()
    assert (again.molecules == keys.molecules).all()


def displaced(atoms, sd_angstrom):
    """Return a copy with normal noise on every coordinate."""
    noise = np.random.default_rng(3).normal(0, sd_angstrom, (len(atoms), 3))
    return Atoms(atoms.numbers, atoms.positions + noise, cell=atoms.cell, pbc=atoms.pbc)


def test_near_copies_in_the_source_are_displaced_ones_of_the_same_formula():
    ethanol = molecule("CH3CH2OH")
    source = StoredDistances.of(NearCopies([record(molecule("C6H6")), refused(), record(ethanol)]))
    target = [
        record(displaced(ethanol, 0.03)),
        record(ethanol),
        record(displaced(ethanol, 0.4)),
        record(molecule("CH3OCH3")),  # an isomer
        record(molecule("CH4")),
        refused(),
    ]
    assert source.n_near_copies(target) == 2
    assert source.n_near_copies(target[2:]) == 0


def test_stored_distances_find_the_near_copies(tmp_path):
    assert near_copies_in_source(tmp_path, [record(molecule("C6H6"))]) is None
    source_records = [record(molecule(name)) for name in ("C6H6", "CH4")]
    save_keys(
        tmp_path, keys_of(source_records), StoredDistances.of(NearCopies(source_records)).arrays()
    )
    target = [record(displaced(molecule("C6H6"), 0.02)), record(molecule("H2O"))]
    assert has_distances(tmp_path)
    assert near_copies_in_source(tmp_path, target) == 1
    assert overlap(load_keys(tmp_path), target) == Overlap(2, 0, 1)


def test_source_stored_without_distances_says_nothing_on_near_copies(tmp_path):
    records = [record(molecule("C6H6"))]
    save_keys(tmp_path, keys_of(records))
    assert not has_distances(tmp_path)
    assert near_copies_in_source(tmp_path, records) is None


@pytest.mark.slow
def test_near_copies_of_a_shipped_source_are_those_of_its_structures():
    records = load_demo("molecules").records
    shifted = [record(displaced(records[0].atoms, 0.02)), record(molecule("H2O"))]
    assert near_copies_in_source(demo_source_folder(), shifted) == 1
