"""Keys of structures and molecules: what must not change them, what must, and what a source stores."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

from bandgap.foundation.errors import ArtifactError
from bandgap.sources.overlap import (
    KNOWN,
    Overlap,
    known_of,
    load_known,
    molecule_keys,
    overlap,
    save_known,
)
from bandgap.structures import StructureRecord

WATER, ARGON = [8187428303974536880], [3829144481315130498]


def record(atoms, name="a"):
    return StructureRecord(name, f"{name}.xyz", "XYZ", atoms)


def moved(atoms, *, seed=0):
    """The same molecule elsewhere, turned, slightly bent, its atoms in another order."""
    rng = np.random.default_rng(seed)
    new = atoms[rng.permutation(len(atoms))]
    new.rotate(rng.uniform(0, 360), rng.normal(size=3))
    new.positions += rng.normal(size=3) * 5 + rng.normal(scale=0.02, size=new.positions.shape)
    return new


def crystal(*names, spacing=9.0):
    """Molecules side by side in a periodic cell, cut by its faces."""
    parts = [molecule(name) for name in names]
    for k, part in enumerate(parts):
        part.positions += np.array([k * spacing, 0.1, 0.1])
    together = sum(parts[1:], parts[0])
    together.set_cell([spacing * len(parts), 11.0, 12.0])
    together.set_pbc(True)
    together.wrap()
    return together


@pytest.mark.parametrize("name", ["C6H6", "CH3CH2OH", "C5H8", "CH3COCl", "H2O"])
def test_key_of_a_molecule_knows_no_place_no_order_and_no_small_bend(name):
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
def test_isomers_have_other_keys(first, second):
    assert molecule(first).get_chemical_formula() == molecule(second).get_chemical_formula()
    assert not np.isin(molecule_keys(molecule(first)), molecule_keys(molecule(second))).any()


def test_molecule_in_a_crystal_has_the_key_that_it_has_alone():
    found = molecule_keys(crystal("C6H6", "CH3CH2OH"))
    alone = np.concatenate([molecule_keys(molecule(name)) for name in ("C6H6", "CH3CH2OH")])
    assert sorted(found) == sorted(alone)


def test_keys_do_not_change_between_versions():
    """Sources store them: another key would silently mean another molecule."""
    assert molecule_keys(molecule("H2O")).tolist() == WATER
    assert molecule_keys(Atoms("Ar")).tolist() == ARGON


def test_overlap_counts_structures_and_molecules():
    benzene, water = molecule("C6H6"), molecule("H2O")
    known = known_of([record(benzene), record(water)])
    target = [
        record(benzene.copy()),
        record(crystal("C6H6", "CH3CH2OH")),
        record(molecule("CH4")),
        refused(),
    ]
    assert overlap(known, target) == Overlap(4, 1, 2)


def refused():
    return StructureRecord("b", "b.cif", "CIF", None)


def test_keys_round_trip_and_none_are_none(tmp_path):
    assert load_known(tmp_path) is None
    known = known_of([record(molecule("C6H6")), refused()])
    save_known(tmp_path, known)
    again = load_known(tmp_path)
    assert (again.structures == known.structures).all() and (
        again.molecules == known.molecules
    ).all()


def test_damaged_keys_are_refused(tmp_path):
    (tmp_path / KNOWN).write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"known.safetensors cannot be read .* make it again"):
        load_known(tmp_path)
