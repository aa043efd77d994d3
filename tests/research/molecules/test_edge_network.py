"""The edge-by-edge network: probabilities, padding, generation, and its two known answers."""

import math

import numpy as np
import pytest
import torch

from bandgap.foundation.progress import Update
from bandgap.research.molecules.edge_network import (
    EdgeNetwork,
    EdgeNetworkConfig,
    generate,
)
from bandgap.research.molecules.edge_training import (
    EdgeTraining,
    mean_log_likelihood,
    new_network,
    train_edge_network,
)
from bandgap.research.molecules.sequences import (
    EdgeSequence,
    sequence_of,
)
from benchmarks.graph_sets import (
    barabasi_albert,
    cycle,
    cycles,
    ladder,
)
from benchmarks.studies.hollywood import HollywoodProcess

LOOPED = sequence_of([(0, 0), (0, 1), (0, 1), (1, 2), (2, 2), (3, 4)])


def graphs_of_all_kinds() -> list[EdgeSequence]:
    tree = sequence_of([(0, 1), (1, 2), (1, 3)], [0.5, 0.5, 4.0])
    return [cycle(6), LOOPED, tree, ladder(8), barabasi_albert(8, np.random.default_rng(0))]


def network_of(config: EdgeNetworkConfig, dtype: torch.dtype = torch.float64) -> EdgeNetwork:
    return new_network(config, seed=0, dtype=dtype)


def test_equal_seeds_generate_equal_graphs_of_the_copied_sizes() -> None:
    network = network_of(EdgeNetworkConfig())
    models = graphs_of_all_kinds()
    first = generate(network, models, torch.Generator().manual_seed(1))
    again = generate(network, models, torch.Generator().manual_seed(1))
    other = generate(network, models, torch.Generator().manual_seed(2))
    assert [len(graph) for graph in first] == [len(model) for model in models]
    assert [g.edges.tolist() for g in first] == [g.edges.tolist() for g in again]
    assert [g.edges.tolist() for g in first] != [g.edges.tolist() for g in other]


def test_likelihood_of_generated_graphs_is_the_frequency_of_their_draws() -> None:
    """One edge is a loop or not; 2,000 draws, 4 standard errors."""
    network = network_of(EdgeNetworkConfig())
    loop = sequence_of([(0, 0)])
    p = math.exp(mean_log_likelihood(network, [loop]))
    graphs = generate(network, [loop] * 2_000, torch.Generator().manual_seed(0))
    share = np.mean([graph.n_nodes == 1 for graph in graphs])
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / 2_000)


def test_early_stopping_keeps_the_best_parameters() -> None:
    """Trained on cycles, the network soon fits other graphs worse than at its best."""
    network = network_of(EdgeNetworkConfig(), torch.float32)
    validation = [LOOPED] * 4
    updates: list[Update] = []
    train_edge_network(
        network,
        [cycle(5)] * 32,
        EdgeTraining(n_steps=200, learning_rate=1e-2, patience=5),
        validation=validation,
        seed=0,
        progress=updates.append,
    )
    best = mean_log_likelihood(network, validation)
    assert updates[-1].done < 200
    assert best >= mean_log_likelihood(network_of(EdgeNetworkConfig(), torch.float32), validation)


@pytest.mark.slow
def test_loss_on_cycles_reaches_its_lower_bound() -> None:
    """The best loss on cycles of 5 to 10 edges is log 6: the end of a cycle is not known before."""
    graphs = cycles(900, np.random.default_rng(0), lowest=5, highest=10)
    network = new_network(EdgeNetworkConfig(width=16), seed=0)
    train_edge_network(network, graphs, EdgeTraining(n_steps=250), seed=0)
    test = cycles(300, np.random.default_rng(1), lowest=5, highest=10)
    assert abs(-mean_log_likelihood(network, test) - math.log(6)) < 0.10


@pytest.mark.slow
def test_network_learns_the_hollywood_process() -> None:
    """Its loss exceeds that of the process itself by less than 0.05 nats per edge."""
    process = HollywoodProcess()
    rng = np.random.default_rng(0)
    graphs = [process.simulate(15, rng) for _ in range(2_000)]
    network = new_network(EdgeNetworkConfig(width=16), seed=0)
    train_edge_network(network, graphs, EdgeTraining(n_steps=250), seed=0)
    test = [process.simulate(15, rng) for _ in range(400)]
    excess = np.mean([process.log_probability(g) for g in test]) - mean_log_likelihood(
        network, test
    )
    assert -0.02 < excess / 15 < 0.05
