"""Generated graphs against synthetic test sets: the edge-by-edge network and the thesis's figures.

Networks learn cycles, ladders, trees and graphs of Barabasi and Albert, with and without messages
that are weighted by time, and with the number of edges that are still to come. Generated graphs are
compared with a test set by the distances of `graph_metrics`, next to the noise floor: two halves of
the training set. DeepGMG (Y. Li et al. 2018) is not trained here; its figures are those that the
thesis prints (E. A. Ott 2022, table 5.3).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.research.molecules.edge_network import EdgeNetworkConfig, generate
from bandgap.research.molecules.edge_training import (
    EdgeTraining,
    new_network,
    train_edge_network,
)
from bandgap.research.molecules.sequences import (
    EdgeSequence,
    breadth_first,
    sequence_of,
)
from benchmarks.graph_metrics import GraphDistances, graph_distances
from benchmarks.graph_sets import (
    barabasi_albert_graphs,
    cycles,
    ladders,
    random_trees,
)

MakeGraphs = Callable[[int, np.random.Generator], list[EdgeSequence]]
Distances = tuple[float, float, float, float]  # degree, clustering, spectrum, density

SETS: Final[Mapping[str, MakeGraphs]] = MappingProxyType(
    {
        "cycles": cycles,
        "ladders": ladders,
        "trees": random_trees,
        "barabasi-albert": barabasi_albert_graphs,
    }
)
NETWORKS: Final[Mapping[str, EdgeNetworkConfig]] = MappingProxyType(
    {
        "plain": EdgeNetworkConfig(width=16),
        "times": EdgeNetworkConfig(width=16, uses_times=True),
        "remaining edges": EdgeNetworkConfig(width=16, remaining_edges=True),
    }
)
# Means of table 5.3.
PUBLISHED: Final[Mapping[str, Mapping[str, Distances]]] = MappingProxyType(
    {
        "cycles": {
            "thesis, plain": (0.08350, 0.00531, 0.14872, 0.09983),
            "thesis, times": (0.08389, 0.00000, 0.14965, 0.09850),
            "thesis, DeepGMG": (0.12930, 0.18182, 0.29722, 0.81000),
        },
        "ladders": {
            "thesis, plain": (0.00375, 0.00000, 0.05133, 0.08033),
            "thesis, times": (0.00397, 0.00000, 0.05223, 0.08125),
            "thesis, DeepGMG": (0.10733, 0.00143, 0.50509, 0.96000),
        },
        "barabasi-albert": {
            "thesis, plain": (0.38978, 0.11020, 0.23202, 0.67117),
            "thesis, times": (0.35268, 0.10822, 0.19653, 0.54475),
            "thesis, DeepGMG": (0.22016, 0.14204, 0.21706, 0.89250),
        },
    }
)


@dataclass(frozen=True)
class GraphsBenchmark:
    """Settings: numbers of graphs, most steps of a training, and the seed."""

    n_training: int = 900
    n_validation: int = 100
    n_test: int = 100
    n_steps: int = 600
    seed: int = 0


@dataclass(frozen=True)
class Row:
    """Distances of generated graphs from the test set, the share that are exact, and the time.

    The share is that of graphs which are cycles, ladders or trees; NaN where it has no meaning.
    """

    set_name: str
    graphs: str
    distances: Distances
    exact_share: float = float("nan")
    seconds: float = float("nan")

    def to_values(self) -> dict[str, Any]:
        """Return the numbers for the file of figures."""
        names = ("degree", "clustering", "spectrum", "density_ks")
        return {
            "set": self.set_name,
            "graphs": self.graphs,
            **dict(zip(names, self.distances, strict=True)),
            "exact_share": self.exact_share,
            "seconds": self.seconds,
        }


def run_graphs(
    config: GraphsBenchmark,
    set_names: Sequence[str],
    network_names: Sequence[str],
    *,
    progress: Progress = no_progress,
) -> list[Row]:
    """Return the noise floor, the networks and the published figures of every set.

    Raises ConfigError for names that are not in `SETS` or `NETWORKS`.
    """
    for names, accepted in ((set_names, SETS), (network_names, NETWORKS)):
        unknown = [name for name in names if name not in accepted]
        if unknown:
            raise ConfigError(f"{unknown[0]!r} is none of {', '.join(accepted)}.")
    rows: list[Row] = []
    for set_name in set_names:
        rng = np.random.default_rng(config.seed)
        training, validation, test = (
            SETS[set_name](n, rng) for n in (config.n_training, config.n_validation, config.n_test)
        )
        halves = graph_distances(training[::2], training[1::2])
        rows.append(Row(set_name, "two halves of the training set", _numbers(halves)))
        for network_name in network_names:
            started = time.perf_counter()
            graphs = _generated(
                NETWORKS[network_name], training, validation, config, set_name, progress
            )
            rows.append(
                Row(
                    set_name,
                    network_name,
                    _numbers(graph_distances(graphs, test)),
                    _exact_share(set_name, graphs),
                    time.perf_counter() - started,
                )
            )
        rows += [Row(set_name, *item) for item in PUBLISHED.get(set_name, {}).items()]
    return rows


def _generated(
    network_config: EdgeNetworkConfig,
    training: Sequence[EdgeSequence],
    validation: Sequence[EdgeSequence],
    config: GraphsBenchmark,
    set_name: str,
    progress: Progress,
) -> list[EdgeSequence]:
    """Train a network; return as many graphs as there are for the test, of copied sizes."""
    network = new_network(network_config, seed=config.seed)
    train_edge_network(
        network,
        training,
        EdgeTraining(n_steps=config.n_steps),
        validation=validation,
        reorder=_breadth_first if set_name == "barabasi-albert" else None,
        seed=config.seed,
        progress=lambda update: progress(replace(update, phase=f"learning {set_name}")),
    )
    rng = np.random.default_rng(config.seed)
    models = [training[i] for i in rng.integers(len(training), size=config.n_test)]
    return generate(network, models, torch.Generator().manual_seed(config.seed))


def _breadth_first(graph: EdgeSequence, rng: np.random.Generator) -> EdgeSequence:
    return sequence_of(breadth_first(graph.edges, rng))


def _numbers(distances: GraphDistances) -> Distances:
    return (distances.degree, distances.clustering, distances.spectrum, distances.density_ks)


def _exact_share(set_name: str, graphs: Sequence[EdgeSequence]) -> float:
    if set_name == "barabasi-albert":
        return float("nan")
    return float(np.mean([is_exact(set_name, graph) for graph in graphs]))


def is_exact(set_name: str, graph: EdgeSequence) -> bool:
    """Return whether a graph is a cycle, a ladder or a tree, without loops and repeated edges."""
    edges = {frozenset(edge) for edge in graph.edges.tolist()}
    if len(edges) < len(graph) or any(len(edge) < 2 for edge in edges):
        return False
    neighbours: list[set[int]] = [set() for _ in range(graph.n_nodes)]
    for first, second in graph.edges.tolist():
        neighbours[first].add(second)
        neighbours[second].add(first)
    if set_name == "ladders":
        return _is_ladder(neighbours)
    n_expected = graph.n_nodes - 1 if set_name == "trees" else graph.n_nodes
    is_cycle = all(len(of_node) == 2 for of_node in neighbours)
    return (
        len(edges) == n_expected and _is_connected(neighbours) and (set_name == "trees" or is_cycle)
    )


def _is_connected(neighbours: Sequence[set[int]]) -> bool:
    reached = {0}
    waiting = [0]
    while waiting:
        new_nodes = neighbours[waiting.pop()] - reached
        reached |= new_nodes
        waiting += new_nodes
    return len(reached) == len(neighbours)


def _is_ladder(neighbours: Sequence[set[int]]) -> bool:
    """Return whether a walk from one of the end rungs, rung by rung, meets all nodes and edges."""
    n_edges = sum(map(len, neighbours)) // 2
    if 2 * n_edges != 3 * len(neighbours) - 4:
        return False
    return any(
        _climbs(neighbours, left_node, right_node)
        for left_node, of_node in enumerate(neighbours)
        for right_node in of_node
        if len(of_node) == len(neighbours[right_node]) == 2
    )


def _climbs(neighbours: Sequence[set[int]], left_node: int, right_node: int) -> bool:
    reached = {left_node, right_node}
    while len(reached) < len(neighbours):
        next_left = neighbours[left_node] - reached
        next_right = neighbours[right_node] - reached
        if len(next_left) != 1 or len(next_right) != 1:
            return False
        (left_node,) = next_left
        (right_node,) = next_right
        if right_node not in neighbours[left_node]:
            return False
        reached |= {left_node, right_node}
    return True
