"""Molecules by their bonds, in and out of crystals, and networks that are none."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.structures.bonds import bonds, molecule_sizes, molecules


def packed(name, *, spacing=8.0):
    """One molecule in a cell that cuts it."""
    atoms = molecule(name)
    atoms.set_cell([spacing] * 3)
    atoms.set_pbc(True)
    atoms.wrap()
    return atoms


def test_bonds_of_ethanol_are_eight():
    i, j = bonds(molecule("CH3CH2OH"))
    assert len(i) == 8 and (i < j).all()


@pytest.mark.parametrize("name", ["C6H6", "CH3CH2OH"])
def test_molecule_cut_by_the_cell_is_one(name):
    assert molecules(packed(name))[0] == molecules(molecule(name))[0] == 1


def test_molecule_sizes_count_the_heavy_atoms_of_each_molecule():
    both = molecule("C6H6") + Atoms("H2", [[20.0, 0, 0], [20.74, 0, 0]])
    assert molecule_sizes(both, largest=1000).tolist() == [6] * 12 + [1, 1]


@pytest.mark.parametrize("repeat", [(1, 1, 1), (2, 1, 1), (1, 2, 3)])
def test_molecule_sizes_are_equal_in_cell_and_supercell(repeat):
    assert set(molecule_sizes(packed("C6H6").repeat(repeat), largest=1000)) == {6}


@pytest.mark.parametrize("repeat", [1, 2])
def test_network_of_bonds_has_the_largest_size(repeat):
    diamond = bulk("C", "diamond", a=3.57, cubic=True).repeat(repeat)
    assert set(molecule_sizes(diamond, largest=1000)) == {1000}


def test_chain_along_one_axis_is_a_network():
    chain = Atoms("C2", [[0.0, 0, 0], [1.4, 0, 0]], cell=[2.8, 15, 15], pbc=True)
    assert set(molecule_sizes(chain, largest=50)) == {50}
    assert set(molecule_sizes(Atoms("C2", chain.positions), largest=50)) == {2}


def test_molecule_sizes_are_limited_to_the_largest():
    assert set(molecule_sizes(molecule("C6H6"), largest=4)) == {4}


def test_molecule_sizes_do_not_depend_on_the_order_of_atoms():
    atoms = packed("CH3CH2OH")
    order = np.random.default_rng(0).permutation(len(atoms))
    assert (
        molecule_sizes(atoms[order], largest=9) == molecule_sizes(atoms, largest=9)[order]
    ).all()
