"""The edge-by-edge network: probabilities, padding, generation, and its two known answers."""

import math

import numpy as np
import pytest
import torch

from bandgap.foundation.progress import Update
from bandgap.research.molecules.edge_network import (
    EdgeNetwork,
    EdgeNetworkConfig,
    batch_of,
    generate,
    log_likelihood,
    walk,
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

VARIANTS = [
    EdgeNetworkConfig(),
    EdgeNetworkConfig(uses_times=True),
    EdgeNetworkConfig(remaining_edges=True),
]
IDS = ["plain", "times", "remaining"]
LOOPED = sequence_of([(0, 0), (0, 1), (0, 1), (1, 2), (2, 2), (3, 4)])


def graphs_of_all_kinds() -> list[EdgeSequence]:
    tree = sequence_of([(0, 1), (1, 2), (1, 3)], [0.5, 0.5, 4.0])
    return [cycle(6), LOOPED, tree, ladder(8), barabasi_albert(8, np.random.default_rng(0))]


def network_of(config: EdgeNetworkConfig, dtype: torch.dtype = torch.float64) -> EdgeNetwork:
    return new_network(config, seed=0, dtype=dtype)


@pytest.mark.parametrize("config", VARIANTS, ids=IDS)
def test_probabilities_sum_to_one_over_nodes_and_a_new_one(config: EdgeNetworkConfig) -> None:
    graphs = graphs_of_all_kinds()
    batch = batch_of(graphs, dtype=torch.float64)
    n_seen = [0] * len(graphs)
    totals: list[float] = []

    def choose(step: int, end: int, log_probabilities: torch.Tensor) -> torch.Tensor:
        for row, graph in enumerate(graphs):
            if step < len(graph):
                p = log_probabilities[row].exp()
                totals.append(float(p[: n_seen[row] + 1].sum()))
                assert float(p[n_seen[row] + 1 :].sum()) <= 1e-6
                n_seen[row] = max(n_seen[row], int(graph.edges[step, end]) + 1)
        return batch.edges[:, step, end]

    with torch.no_grad():
        walk(network_of(config), batch.times, batch.n_edges, choose)
    assert totals == pytest.approx([1.0] * len(totals), abs=1e-6)
    assert len(totals) == 2 * sum(map(len, graphs))


def test_first_sender_is_certainly_new() -> None:
    one_edge = sequence_of([(0, 0)])
    network = network_of(EdgeNetworkConfig())
    chosen_log_ps: list[torch.Tensor] = []

    def choose(step: int, end: int, log_probabilities: torch.Tensor) -> torch.Tensor:
        chosen_log_ps.append(log_probabilities)
        return torch.zeros(1, dtype=torch.long)

    batch = batch_of([one_edge], dtype=torch.float64)
    walk(network, batch.times, batch.n_edges, choose)
    assert chosen_log_ps[0].tolist() == [[0.0]]
    assert chosen_log_ps[1].shape == (1, 2)


@pytest.mark.parametrize("config", VARIANTS, ids=IDS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["64", "32"]
)
def test_likelihood_in_a_batch_is_that_of_each_graph_alone(
    config: EdgeNetworkConfig, dtype: torch.dtype, tolerance: float
) -> None:
    """Relative to likelihoods of some ten nats; also in the other order of the batch."""
    graphs = graphs_of_all_kinds()
    network = network_of(config, dtype)
    together = log_likelihood(network, batch_of(graphs, dtype=dtype))
    reverse = log_likelihood(network, batch_of(graphs[::-1], dtype=dtype))
    alone = torch.cat([log_likelihood(network, batch_of([g], dtype=dtype)) for g in graphs])
    exact = log_likelihood(network_of(config), batch_of(graphs, dtype=torch.float64))
    assert together.tolist() == pytest.approx(alone.tolist(), abs=tolerance)
    assert together.tolist() == pytest.approx(reverse.tolist()[::-1], abs=tolerance)
    assert together.double().tolist() == pytest.approx(exact.tolist(), abs=1e-5)


def test_messages_are_sums_of_the_function_over_edges_with_multiplicity() -> None:
    """Against a loop over pairs: 0-1 twice, a loop at 1 that sends one message, and 1-2."""
    nodes = torch.randn(1, 3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    updates = network_of(EdgeNetworkConfig()).nodes
    edges = torch.tensor([[[0, 1], [1, 0], [1, 1], [1, 2]]])
    weights = torch.tensor([[1.0, 0.5, 2.0, 3.0]], dtype=torch.float64)

    def message(receiver: int, sender: int) -> torch.Tensor:
        hidden = updates.receiver(nodes[0, receiver]) + updates.neighbour(nodes[0, sender])
        result: torch.Tensor = updates.message(torch.relu(hidden))
        return result

    totals = torch.stack(
        [
            1.5 * message(0, 1),
            1.5 * message(1, 0) + 2.0 * message(1, 1) + 3.0 * message(1, 2),
            3.0 * message(2, 1),
        ]
    )
    expected = updates.update(totals, nodes[0])
    actual = updates(nodes, torch.tensor([3]), edges, weights=weights)
    assert torch.allclose(actual[0], expected, atol=1e-12)


def test_linear_change_of_the_clock_has_no_effect() -> None:
    network = network_of(EdgeNetworkConfig(uses_times=True))
    times = np.array([0.0, 1.0, 1.5, 4.0])
    edges = [(0, 1), (1, 2), (2, 0), (2, 3)]
    values = log_likelihood(
        network,
        batch_of(
            [
                sequence_of(edges, times),
                sequence_of(edges, 100 + 7 * times),
                sequence_of(edges, times**2),
            ],
            dtype=torch.float64,
        ),
    ).tolist()
    assert values[1] == pytest.approx(values[0], abs=1e-10)
    assert abs(values[2] - values[0]) > 1e-6


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
