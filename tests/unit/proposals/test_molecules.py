"""Molecule graphs: valences, walks, and the mutations of the baseline."""

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.proposals.molecules import (
    AtomLabel,
    MoleculeGraph,
    Vocabulary,
    mutated,
    mutated_molecules,
)

CARBON, OXYGEN = AtomLabel("C", 0, 4), AtomLabel("O", 0, 2)


def test_bonds_beyond_the_valence_are_refused() -> None:
    with pytest.raises(InputError, match="exceed the valence of atom 1"):
        MoleculeGraph((CARBON, OXYGEN), np.array([[0, 1]]), np.array([3]))


def test_mutations_are_valid_connected_and_different(molecules: list[MoleculeGraph]) -> None:
    from bandgap.proposals.chemistry import smiles_of_graph

    vocabulary = Vocabulary.of(molecules)
    changed = mutated_molecules(molecules, vocabulary, 300, np.random.default_rng(0))
    smiles = [smiles_of_graph(graph) for graph in changed]
    assert sum(text is not None for text in smiles) >= 297
    assert not any("." in (text or "") for text in smiles)
    assert all(vocabulary.has_usual_hydrogens(graph) for graph in changed)
    assert len(set(smiles)) > 100
    assert {len(graph.labels) for graph in changed} >= {2, 3, 8, 9, 10, 11}


def test_label_outside_of_the_training_set_is_not_usual() -> None:
    carbons = MoleculeGraph((CARBON, CARBON), np.array([[0, 1]]), np.array([1]))
    methanol = MoleculeGraph((CARBON, OXYGEN), np.array([[0, 1]]), np.array([1]))
    assert Vocabulary.of([carbons, methanol]).has_usual_hydrogens(methanol)
    assert not Vocabulary.of([carbons]).has_usual_hydrogens(methanol)


def test_molecule_that_cannot_change_stays() -> None:
    """Two fluorine atoms, and no other label."""
    fluorine = AtomLabel("F", 0, 1)
    graph = MoleculeGraph((fluorine, fluorine), np.array([[0, 1]]), np.array([1]))
    assert mutated(graph, Vocabulary.of([graph]), np.random.default_rng(0)) is graph
