"""The network for molecules: masks, likelihoods in batches and of its own samples, validity."""

from collections import Counter

import numpy as np
import pytest
import torch

from bandgap.datasets.demo import load_demo
from bandgap.foundation.errors import InputError
from bandgap.proposals.candidates import known_molecules
from bandgap.proposals.chemistry import smiles_of_graph
from bandgap.proposals.molecules import MoleculeGraph, Vocabulary
from bandgap.research.molecules.molecule_network import (
    MoleculeNetwork,
    MoleculeNetworkConfig,
    batch_of_walks,
    log_likelihood,
    sample_walks,
    walk_molecules,
)
from bandgap.research.molecules.walks import MoleculeWalk, graph_of_walk, random_walk


def network_for(
    molecules: list[MoleculeGraph], *, seed: int = 0, max_atoms: int = 12
) -> tuple[MoleculeNetwork, Vocabulary]:
    vocabulary = Vocabulary.of(molecules)
    config = MoleculeNetworkConfig(len(vocabulary.labels), 8, 16, max_atoms=max_atoms)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MoleculeNetwork(config, vocabulary.labels).double(), vocabulary


def walks_of(
    molecules: list[MoleculeGraph], vocabulary: Vocabulary, *, seed: int = 0
) -> list[MoleculeWalk]:
    rng = np.random.default_rng(seed)
    return [random_walk(graph, vocabulary, rng) for graph in molecules]


def test_no_bond_of_a_molecule_is_masked(molecules: list[MoleculeGraph]) -> None:
    """In any breadth-first order; a masked one has a log-probability of -1e9."""
    network, vocabulary = network_for(molecules)
    for seed in range(20):
        walks = walks_of(molecules, vocabulary, seed=seed)
        with torch.no_grad():
            assert log_likelihood(network, batch_of_walks(walks)).min() > -1e4


def test_probabilities_of_every_decision_sum_to_one_and_masked_ones_are_zero(
    molecules: list[MoleculeGraph],
) -> None:
    """Slots after that of a new atom cannot be drawn; nor can more than the free valence."""
    network, vocabulary = network_for(molecules)
    walks = walks_of(molecules, vocabulary)
    batch = batch_of_walks(walks)
    decisions: Counter[str] = Counter()

    def choose(decision: str, step: int, log_probabilities: torch.Tensor) -> torch.Tensor:
        decisions[decision] += 1
        p = log_probabilities.exp()
        assert torch.allclose(p.sum(dim=1), torch.ones(len(walks)).double(), atol=1e-6)
        column = min(step, batch.edges.shape[1] - 1)
        true_edges = batch.edges[:, column]
        for row, walk in enumerate(walks):
            if step >= len(walk.edges):
                continue
            n_atoms = 1 + int(walk.edges[:step].max(initial=0))
            if decision == "sender":
                assert float(p[row, n_atoms:].sum()) == 0.0
                assert float(p[row, : walk.edges[step - 1, 0] if step else 0].sum()) == 0.0
            if decision == "recipient":
                assert float(p[row, n_atoms + 1 :].sum()) == 0.0
                assert float(p[row, : walk.edges[step, 0] + 1].sum()) == 0.0
        truths = {
            "stop": (step >= batch.n_edges).long(),
            "first": batch.labels[:, 0],
            "sender": true_edges[:, 0],
            "recipient": true_edges[:, 1],
            "label": batch.labels.gather(1, true_edges[:, 1][:, None]).squeeze(1),
            "order": batch.orders[:, column] - 1,
        }
        return truths[decision]

    with torch.no_grad():
        total, _ = walk_molecules(network, len(walks), batch.orders.shape[1], choose)
        expected = log_likelihood(network, batch)
    assert total.tolist() == pytest.approx(expected.tolist(), abs=1e-10)
    assert set(decisions) == {"stop", "first", "sender", "recipient", "label", "order"}


@pytest.mark.slow
def test_no_bond_of_the_demo_molecules_is_masked() -> None:
    """All demo molecules that are used, in one breadth-first order each."""
    graphs = list(known_molecules(load_demo("molecules").records).graphs)
    assert len(graphs) > 5_000
    network, vocabulary = network_for(graphs, max_atoms=30)
    walks = walks_of(graphs, vocabulary)
    with torch.no_grad():
        for first in range(0, len(walks), 256):
            batch = batch_of_walks(walks[first : first + 256])
            assert log_likelihood(network, batch).min() > -1e4


def test_bond_that_the_masks_forbid_is_an_error(molecules: list[MoleculeGraph]) -> None:
    """A third bond at an oxygen of valence 2."""
    network, vocabulary = network_for(molecules)
    oxygen = [label.symbol for label in vocabulary.labels].index("O")
    assert vocabulary.labels[oxygen + 1].valence == 2
    walk = MoleculeWalk(np.array([oxygen + 1, 0, 0]), np.array([[0, 1], [0, 2]]), np.array([2, 1]))
    with pytest.raises(InputError, match="walk 0 of the batch has a bond that the valence masks"):
        log_likelihood(network, batch_of_walks([walk]))


def test_likelihood_in_a_batch_is_that_of_each_molecule_alone(
    molecules: list[MoleculeGraph],
) -> None:
    network, vocabulary = network_for(molecules)
    walks = walks_of(molecules, vocabulary)
    with torch.no_grad():
        together = log_likelihood(network, batch_of_walks(walks))
        reverse = log_likelihood(network, batch_of_walks(walks[::-1]))
        alone = torch.cat([log_likelihood(network, batch_of_walks([walk])) for walk in walks])
    assert together.tolist() == pytest.approx(alone.tolist(), abs=1e-9)
    assert together.tolist() == pytest.approx(reverse.tolist()[::-1], abs=1e-9)


def test_likelihood_of_a_sample_is_that_of_its_draws(molecules: list[MoleculeGraph]) -> None:
    """Sampling and teacher forcing give the same number for molecules that end by themselves."""
    network, _ = network_for(molecules, max_atoms=40)
    generator = torch.Generator().manual_seed(0)

    def choose(decision: str, step: int, log_probabilities: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(log_probabilities.exp(), 1, generator=generator).squeeze(1)

    with torch.no_grad():
        totals, walks = walk_molecules(network, 40, 60, choose)
        is_complete = [len(walk.labels) <= 40 and len(walk.edges) < 60 for walk in walks]
        again = log_likelihood(network, batch_of_walks(walks))
    assert sum(is_complete) >= 20
    for total, value, complete in zip(totals.tolist(), again.tolist(), is_complete, strict=True):
        assert not complete or value == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_samples_of_an_untrained_network_are_sanitised(
    molecules: list[MoleculeGraph], seed: int
) -> None:
    """The masks alone make valid molecules; 200 of each network, at least 99 % sanitised."""
    network, vocabulary = network_for(molecules, seed=seed)
    walks = sample_walks(network, 200, torch.Generator().manual_seed(seed))
    smiles = [smiles_of_graph(graph_of_walk(walk, vocabulary)) for walk in walks]
    assert sum(text is not None for text in smiles) >= 198
    assert not any("." in (text or "") for text in smiles)
    assert max(len(walk.labels) for walk in walks) <= 13


def test_samples_stop_only_without_a_net_charge_unless_they_cannot_grow(
    molecules: list[MoleculeGraph],
) -> None:
    network, vocabulary = network_for(molecules, max_atoms=30)
    walks = sample_walks(network, 200, torch.Generator().manual_seed(0))
    graphs = [graph_of_walk(walk, vocabulary) for walk in walks if len(walk.labels) <= 30]
    assert any(label.charge for graph in graphs for label in graph.labels)
    for graph, walk in zip(graphs, (w for w in walks if len(w.labels) <= 30), strict=True):
        can_grow = bool(graph.free_valences[walk.edges[-1, 0] :].any()) and len(walk.edges) < 60
        assert graph.charge == 0 or not can_grow


def test_walk_of_a_molecule_is_the_same_molecule(molecules: list[MoleculeGraph]) -> None:
    from bandgap.proposals.chemistry import smiles_of_graph

    vocabulary = Vocabulary.of(molecules)
    rng = np.random.default_rng(0)
    for graph in molecules:
        for _ in range(5):
            walk = random_walk(graph, vocabulary, rng)
            assert walk.edges[0].tolist() == [0, 1]
            assert np.all(np.diff(walk.edges[:, 0]) >= 0)
            assert np.all(walk.edges[:, 1] > walk.edges[:, 0])
            again = graph_of_walk(walk, vocabulary)
            assert smiles_of_graph(again) == smiles_of_graph(graph)
