"""Edge sequences: numbering by appearance, the synthetic sets, and breadth-first orders."""

import networkx
import numpy as np
import pytest

from bandgap.research.molecules.sequences import (
    EdgeSequence,
    breadth_first,
    sequence_of,
)
from benchmarks.graph_sets import (
    barabasi_albert,
    barabasi_albert_graphs,
    cycle,
    cycles,
    ladder,
    ladders,
    random_trees,
)


def as_networkx(graph: EdgeSequence) -> networkx.Graph:
    return networkx.Graph(graph.edges.tolist())


def test_nodes_are_numbered_by_appearance() -> None:
    assert sequence_of([(9, 4), (4, 4), (2, 9)]).edges.tolist() == [[0, 1], [1, 1], [2, 0]]


@pytest.mark.parametrize("n", [3, 10, 17])
def test_cycle_is_that_of_networkx(n: int) -> None:
    assert networkx.is_isomorphic(as_networkx(cycle(n)), networkx.cycle_graph(n))


@pytest.mark.parametrize("n", [4, 10, 16])
def test_ladder_is_that_of_networkx(n: int) -> None:
    graph = ladder(n)
    assert len(graph) == 3 * n // 2 - 2
    assert networkx.is_isomorphic(as_networkx(graph), networkx.ladder_graph(n // 2))


def test_barabasi_albert_degrees_have_the_mean_largest_degree_of_networkx() -> None:
    """Means over 200 graphs of 20 nodes; 4 standard errors."""
    rng = np.random.default_rng(1)
    ours = [max(dict(as_networkx(barabasi_albert(20, rng)).degree).values()) for _ in range(200)]
    theirs = [
        max(dict(networkx.barabasi_albert_graph(20, 4, seed=k).degree).values()) for k in range(200)
    ]
    error = np.sqrt((np.var(ours) + np.var(theirs)) / 200)
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error


def test_breadth_first_order_keeps_the_graph_and_grows_it_connected() -> None:
    edges = ladder(20).edges
    rng = np.random.default_rng(0)
    walks = [breadth_first(edges, rng) for _ in range(20)]
    for walk in walks:
        assert {frozenset(edge) for edge in walk.tolist()} == {
            frozenset(edge) for edge in edges.tolist()
        }
        numbers = sequence_of(walk).edges
        assert all(numbers[k, 0] <= numbers[:k].max() for k in range(1, len(numbers)))
    assert len({tuple(map(tuple, walk.tolist())) for walk in walks}) > 10


@pytest.mark.parametrize(
    ("sets", "n_edges"),
    [
        (cycles, lambda n: n),
        (ladders, lambda n: 3 * n // 2 - 2),
        (random_trees, lambda n: n - 1),
        (barabasi_albert_graphs, lambda n: 4 * (n - 4)),
    ],
    ids=["cycles", "ladders", "trees", "barabasi_albert"],
)
def test_synthetic_sets_have_10_to_40_nodes(sets, n_edges) -> None:  # type: ignore[no-untyped-def]
    graphs = sets(150, np.random.default_rng(0))
    sizes = {graph.n_nodes for graph in graphs}
    assert (min(sizes), max(sizes)) == (10, 40)
    assert all(len(graph) == n_edges(graph.n_nodes) for graph in graphs)
