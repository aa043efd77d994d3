"""Bond orders and charges perceived from positions, compared with SMILES."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from bandgap.descriptors import bond_orders
from bandgap.descriptors.bond_orders import NoBondsError, molecules_of
from tests.unit.descriptors.samples import WRITTEN_OTHERWISE, crystal


def geometry(smiles: str) -> Atoms:
    """Return a molecule with positions that RDKit computes from its SMILES."""
    with_hydrogen = Chem.AddHs(Chem.MolFromSmiles(smiles))
    assert rdDistGeom.EmbedMolecule(with_hydrogen, randomSeed=1) == 0
    numbers = [atom.GetAtomicNum() for atom in with_hydrogen.GetAtoms()]
    return Atoms(numbers, with_hydrogen.GetConformer().GetPositions())


def perceived(atoms: Atoms) -> list[str]:
    """Return the SMILES of the molecules of a structure."""
    return sorted(Chem.MolToSmiles(graph, isomericSmiles=False) for graph, _ in molecules_of(atoms))


@pytest.mark.parametrize(
    "smiles",
    [
        "c1ccccc1",
        "O=C(O)c1ccccc1",
        "O=[N+]([O-])c1ccc([N+](=O)[O-])cc1",
        "[O-][n+]1ccccc1",
        "[O-][N+](=Cc1ccccc1)c1ccccc1",
        "Nc1on[n+]([O-])c1-c1ccccc1",
        "CN=[N+]=[N-]",
        "[N-]=[N+]=C(c1ccccc1)c1ccccc1",
        "[C-]#[N+]c1ccccc1",
        "CS(C)=O",
        "CS(=O)(=O)c1ccccc1",
        "S=c1sccs1",
        "Cc1ccsc1C(C)=O",
        "CP(=O)(O)O",
        "C=C=CC#N",
        "c1ccc2c(c1)[nH]c1ccccc12",
        "C[n+]1ccccc1",
        "O=C([O-])c1ccccc1",
        "CC(I)I",
        "OB(O)c1ccccc1",
        "c1ccc2cccc-2cc1",
    ],
)
def test_perceived_bonds_are_those_of_the_smiles(smiles: str):
    expected = Chem.MolToSmiles(Chem.MolFromSmiles(smiles))
    assert perceived(geometry(smiles)) == [expected]


def test_bonds_do_not_depend_on_the_order_of_the_atoms():
    # The charge may be on either nitrogen atom.
    atoms = geometry("CCn1cc[n+](C)c1")
    generator = np.random.default_rng(0)
    orders = [generator.permutation(len(atoms)) for _ in range(8)]
    assert len({perceived(atoms[order])[0] for order in orders}) == 1


@WRITTEN_OTHERWISE
def test_molecules_of_a_crystal_are_found_across_its_cell(change):
    changed = change(crystal())
    # Acetamide; water has no carbon and is left out where other molecules have some.
    assert perceived(changed) == ["CC(N)=O"]
    n_cells = len(changed) / len(crystal())
    assert [count for _, count in molecules_of(changed)] == [n_cells]


def test_hydrogen_between_two_atoms_is_bonded_to_the_nearer_one():
    acid = geometry("OC=O")
    oxygen = int(np.flatnonzero(acid.numbers == 8)[0])
    hydrogens = np.flatnonzero(acid.numbers == 1)
    proton = int(hydrogens[np.argmin(acid.get_distances(oxygen, hydrogens))])
    direction = acid.positions[proton] - acid.positions[oxygen]
    water = geometry("O")
    towards = water.positions[1:].mean(axis=0) - water.positions[0]
    water.rotate(towards, direction)
    # 1.15 angstrom from the proton, which counts as bonded by distance.
    unit = direction / np.linalg.norm(direction)
    water.positions += acid.positions[proton] + 1.15 * unit - water.positions[0]
    assert perceived(acid + water) == ["O.O=CO"]


def test_structure_without_a_molecule_is_refused():
    with pytest.raises(NoBondsError, match="it contains no molecule"):
        molecules_of(bulk("NaCl", "rocksalt", a=5.64))


def test_atom_with_too_many_bonds_is_refused():
    # Sulfur with seven neighbours.
    directions = np.vstack([np.eye(3), -np.eye(3), [0.577, 0.577, 0.577]])
    atoms = Atoms("SF7C", np.vstack([[0, 0, 0], 1.6 * directions, [4.0, 0, 0]])[:9])
    with pytest.raises(NoBondsError, match="more bonds than it can have"):
        molecules_of(atoms)


def test_search_that_takes_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(bond_orders, "LIMIT_S", 0.0)
    with pytest.raises(NoBondsError, match="no bond orders were found within 0 s"):
        molecules_of(geometry("c1ccc2cc3ccccc3cc2c1"))
