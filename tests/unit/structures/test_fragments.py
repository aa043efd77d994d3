"""Molecules of crystals and of frameworks, and their charges."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.structures.fragments import formal_charge, fragments


def hybrid_perovskite(*, spacing=6.3):
    """Methylammonium lead iodide: a cube of PbI3, with one CH3NH3 that the cell cuts."""
    edges = 0.5 * spacing * np.eye(3)
    framework = Atoms("PbI3", np.vstack([np.zeros(3), edges]))
    ion = ammonium("H3CNH2")
    ion.positions += 0.5 * spacing - ion.positions.mean(axis=0)
    atoms = framework + ion
    atoms.set_cell(2.0 * edges)
    atoms.set_pbc(True)
    atoms.positions += 0.5 * spacing
    atoms.wrap()
    return atoms


def ammonium(name):
    """An amine with one more proton, opposite to the other neighbours of nitrogen."""
    atoms = molecule(name)
    nitrogen = int(np.flatnonzero(atoms.numbers == 7)[0])
    distances = atoms.get_distances(nitrogen, range(len(atoms)))
    around = [k for k in np.flatnonzero(distances < 1.6) if k != nitrogen]
    direction = atoms.positions[nitrogen] - atoms.positions[around].mean(axis=0)
    direction /= np.linalg.norm(direction)
    return atoms + Atoms("H", [atoms.positions[nitrogen] + 1.03 * direction])


def only(atoms):
    (fragment,) = fragments(atoms)
    return fragment


def test_molecule_in_a_framework_of_metal_is_one_and_not_cut_by_the_cell():
    fragment = only(hybrid_perovskite())
    assert sorted(fragment.numbers) == [1] * 6 + [6, 7]
    lengths = np.linalg.norm(fragment.positions[:, None] - fragment.positions, axis=2)
    assert lengths.max() < 4.0
    assert formal_charge(fragment) == 1


def test_molecules_do_not_depend_on_the_order_of_atoms_and_are_repeated_with_the_cell():
    atoms = hybrid_perovskite()
    order = np.random.default_rng(0).permutation(len(atoms))
    assert len(only(atoms[order]).numbers) == len(only(atoms).numbers)
    assert [len(f.numbers) for f in fragments(atoms.repeat((2, 1, 1)))] == [8, 8]


def test_all_molecules_of_a_molecular_crystal_are_returned():
    benzene = molecule("C6H6")
    benzene.set_cell([8.0] * 3)
    benzene.set_pbc(True)
    benzene.wrap()
    assert [len(f.numbers) for f in fragments(benzene.repeat((2, 1, 1)))] == [12, 12]
    assert len(fragments(molecule("C6H6"))) == 1


@pytest.mark.parametrize(
    "atoms",
    [
        bulk("C", "diamond", a=3.57),
        bulk("NaCl", "rocksalt", a=5.64),
        bulk("Pb", "fcc", a=4.95),
        Atoms("C2", [[0.0, 0, 0], [1.4, 0, 0]], cell=[2.8, 15, 15], pbc=True),
    ],
    ids=["diamond", "salt", "metal", "chain"],
)
def test_networks_single_ions_and_metals_are_no_molecules(atoms):
    assert fragments(atoms) == []


def test_molecules_without_carbon_count_only_where_none_has_carbon():
    water = molecule("H2O")
    water.positions += [20.0, 0.0, 0.0]
    assert only(water).numbers.tolist() == [8, 1, 1]
    assert sorted(only(molecule("CH4") + water).numbers) == [1, 1, 1, 1, 6]


def deprotonated(name, number):
    """A molecule without the hydrogen on the first atom of this number that has one."""
    atoms = molecule(name)
    for hydrogen in np.flatnonzero(atoms.numbers == 1):
        distances = atoms.get_distances(int(hydrogen), range(len(atoms)))
        distances[hydrogen] = np.inf
        if atoms.numbers[int(np.argmin(distances))] == number:
            del atoms[int(hydrogen)]
            return atoms
    raise AssertionError(name)


def tetrahedron(centre, corners, length):
    """An atom with four others around it."""
    ends = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3.0)
    return Atoms(centre + corners, np.vstack([np.zeros(3), length * ends]))


def sulfonium():
    """Trimethylsulfonium, the ion of (CH3)3SPbI3."""
    directions = tetrahedron("S", "C4", 1.81).positions[1:4]
    hydrogens = []
    for carbon in directions:
        axis = carbon / np.linalg.norm(carbon)
        side = np.cross(axis, [0.3, 0.5, 0.8])
        side /= np.linalg.norm(side)
        for angle in 2.0 * np.pi * np.arange(3) / 3.0:
            around = np.cos(angle) * side + np.sin(angle) * np.cross(axis, side)
            hydrogens.append(carbon + 1.09 * (axis / 3.0 + np.sqrt(8.0) / 3.0 * around))
    return Atoms("SC3H9", [np.zeros(3), *directions, *hydrogens])


def pyridinium():
    ring = molecule("C5H5N")
    nitrogen = int(np.flatnonzero(ring.numbers == 7)[0])
    outwards = ring.positions[nitrogen] - ring.positions[ring.numbers == 6].mean(axis=0)
    outwards /= np.linalg.norm(outwards)
    return ring + Atoms("H", [ring.positions[nitrogen] + 1.02 * outwards])


@pytest.mark.parametrize(
    ("atoms", "charge"),
    [
        (molecule("C6H6"), 0),
        (molecule("CH3CONH2"), 0),
        (molecule("CH3NO2"), 0),
        (ammonium("H3CNH2"), 1),
        (pyridinium(), 1),
        (deprotonated("CH3COOH", 8), -1),
        (deprotonated("CH3SH", 16), -1),
        (tetrahedron("S", "O4", 1.48), -2),
        (tetrahedron("P", "O4", 1.54), -3),
        (tetrahedron("N", "H4", 1.03), 1),
        (tetrahedron("As", "H4", 1.50), 1),
        (tetrahedron("O", "H4", 1.00)[:4], 1),
        (sulfonium(), 1),
        (tetrahedron("Se", "O4", 1.64), -2),
        (molecule("CO2"), 0),
        (molecule("CS2"), 0),
        (tetrahedron("B", "F4", 1.40), -1),
    ],
    ids=[
        "benzene",
        "amide",
        "nitro",
        "ammonium",
        "pyridinium",
        "carboxylate",
        "thiolate",
        "sulfate",
        "phosphate",
        "NH4",
        "AsH4",
        "oxonium",
        "sulfonium",
        "selenate",
        "carbon dioxide",
        "carbon disulfide",
        "BF4",
    ],
)
def test_charge_is_counted_from_neighbours_and_the_number_of_electrons(atoms, charge):
    fragment = only(atoms)
    assert formal_charge(fragment) == charge
    assert (fragment.numbers.sum() - charge) % 2 == 0
