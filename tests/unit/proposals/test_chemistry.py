"""Molecules by RDKit: bonds from geometries, SMILES and back, 3D geometries, missing packages."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule
from rdkit.Chem import CanonSmiles

from bandgap.datasets.demo import load_demo
from bandgap.proposals.candidates import known_molecules, usable_candidates
from bandgap.proposals.chemistry import (
    NotAMoleculeError,
    embedded_atoms,
    graph_of_atoms,
    graph_of_smiles,
    smiles_of_graph,
)
from bandgap.proposals.molecules import AtomLabel, MoleculeGraph, Vocabulary
from tests.unit.proposals.conftest import SMILES


@pytest.mark.parametrize("smiles", SMILES)
def test_graph_of_a_smiles_gives_the_same_smiles(smiles: str) -> None:
    assert smiles_of_graph(graph_of_smiles(smiles)) == CanonSmiles(smiles)


def test_labels_have_charge_and_valence_with_hydrogens() -> None:
    graph = graph_of_smiles("C[N+](=O)[O-]")
    assert set(graph.labels) == {
        AtomLabel("C", 0, 4),
        AtomLabel("N", 1, 4),
        AtomLabel("O", 0, 2),
        AtomLabel("O", -1, 1),
    }
    assert graph.charge == 0
    assert graph.free_valences.tolist() == [3, 0, 0, 0]


@pytest.mark.slow
def test_bonds_from_geometries_are_those_of_the_demo_molecules() -> None:
    """At least 95 % of the molecules that are used have the SMILES that they were made from."""
    demo = load_demo("molecules")
    known_set = known_molecules(demo.records[:1_000])
    expected = {CanonSmiles(smiles, useChiral=0) for smiles in demo.table["smiles"][:1_000]}
    assert len(known_set.graphs) > 800
    assert len(expected & set(known_set.smiles)) >= 0.95 * len(known_set.graphs)
    assert len(known_set.graphs) + sum(known_set.refused.values()) == 1_000


@pytest.mark.parametrize(
    ("atoms", "reason"),
    [
        (bulk("Si"), "is periodic"),
        (molecule("CH4"), "less than two heavy atoms"),
        (molecule("CH3"), "bond orders|radical|heavy atoms"),
        (
            Atoms(
                "C2H6C2H6",
                np.vstack([molecule("C2H6").positions] * 2)
                + np.r_[np.zeros((8, 3)), np.full((8, 3), 9.0)],
            ),
            "several fragments",
        ),
    ],
    ids=["crystal", "methane", "radical", "fragments"],
)
def test_structures_that_are_no_molecules_are_refused(atoms: Atoms, reason: str) -> None:
    with pytest.raises(NotAMoleculeError, match=reason):
        graph_of_atoms(atoms)


@pytest.mark.parametrize(
    "atoms",
    [Atoms("CX", [[0, 0, 0], [1.1, 0, 0]]), Atoms("C2", [[0, 0, 0], [np.nan, 0, 0]])],
    ids=["dummy atom", "no position"],
)
def test_atoms_that_rdkit_cannot_read_are_refused(atoms: Atoms) -> None:
    with pytest.raises(NotAMoleculeError, match="RDKit cannot read"):
        graph_of_atoms(atoms)


def test_seeds_of_any_size_give_a_geometry() -> None:
    """A run may have a seed above those that RDKit takes."""
    for seed in (2**31 - 1, 2**31, 2**40):
        assert embedded_atoms("CCO", seed=seed) is not None


def test_geometry_has_the_atoms_and_is_repeated_by_its_seed() -> None:
    atoms = embedded_atoms("Cc1cc[nH]c1", seed=3)
    again = embedded_atoms("Cc1cc[nH]c1", seed=3)
    assert atoms is not None and again is not None
    assert atoms.get_chemical_formula() == "C5H7N"
    assert np.array_equal(atoms.positions, again.positions)
    assert smiles_of_graph(graph_of_atoms(atoms)) == CanonSmiles("Cc1cc[nH]c1")


def test_candidates_are_counted_by_condition() -> None:
    ethane = graph_of_smiles("CC")
    propane = graph_of_smiles("CCC")
    bonds = np.array([[0, 1]]), np.array([1])
    charged = MoleculeGraph((AtomLabel("C", 0, 4), AtomLabel("N", 1, 4)), *bonds)
    impossible = MoleculeGraph((AtomLabel("C", 0, 4), AtomLabel("O", 0, 5)), *bonds)
    sulfane = MoleculeGraph((AtomLabel("C", 0, 4), AtomLabel("S", 0, 6)), *bonds)
    graphs = [ethane, ethane, propane, charged, impossible, graph_of_smiles("c1ccccc1")]
    vocabulary = Vocabulary.of([*graphs, graph_of_smiles("CS(C)(=O)=O")])
    graphs.append(sulfane)
    candidates, counts = usable_candidates(graphs, ["CC"], vocabulary=vocabulary, max_atoms=5)
    assert candidates == {"CC": True, "CCC": False}
    values = (counts.sampled, counts.complete, counts.valid, counts.neutral, counts.usual)
    assert values == (7, 6, 5, 4, 3)
    assert counts.unique == 2
    assert counts.novel == 1
    assert "Only 0 of 7 generated molecules are usable" in counts.warning
