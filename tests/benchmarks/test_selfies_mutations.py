"""Random changes of SELFIES: valid molecules that differ, equal seeds, and a missing package.

Skipped where the package selfies, which bandgap does not use, is not installed.
"""

import pytest

from bandgap.proposals.candidates import known_molecules, usable_candidates
from bandgap.proposals.chemistry import embedded_atoms, smiles_of_graph
from bandgap.structures import as_records
from benchmarks.selfies_mutations import SelfiesMutations
from tests.unit.proposals.conftest import SMILES


def test_changed_strings_are_valid_molecules() -> None:
    pytest.importorskip("selfies")
    atoms = [embedded_atoms(smiles, seed=1) for smiles in SMILES]
    known_set = known_molecules(as_records([one for one in atoms if one is not None]))
    sampler = SelfiesMutations(known_set)
    graphs = sampler.sample(100, seed=0)
    smiles = [smiles_of_graph(graph) for graph in graphs]
    assert smiles == [smiles_of_graph(graph) for graph in sampler.sample(100, seed=0)]
    assert smiles != [smiles_of_graph(graph) for graph in sampler.sample(100, seed=1)]
    candidates, counts = usable_candidates(
        graphs, sampler.training_smiles, vocabulary=sampler.vocabulary, max_atoms=30
    )
    assert counts.valid == 100
    assert counts.novel > 20
    assert any(candidates.values())
