"""The edge network and the Hollywood process against independent implementations by plain loops."""

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bandgap.research.molecules.edge_network import (
    EdgeNetwork,
    EdgeNetworkConfig,
    batch_of,
    log_likelihood,
)
from bandgap.research.molecules.edge_training import new_network
from bandgap.research.molecules.sequences import (
    EdgeSequence,
    sequence_of,
)
from benchmarks.graph_sets import (
    barabasi_albert,
    cycle,
    ladder,
    random_tree,
)
from benchmarks.studies.hollywood import HollywoodProcess

Floats = NDArray[np.float64]

GRAPHS = [
    sequence_of([(0, 0), (0, 1), (0, 1), (1, 2), (2, 2), (3, 4)], [0.5, 0.5, 2.0, 2.5, 7.0, 7.0]),
    cycle(7),
    ladder(8),
    random_tree(9, np.random.default_rng(0)),
    barabasi_albert(9, np.random.default_rng(1)),
    sequence_of([(0, 1)]),
]
VARIANTS = [
    EdgeNetworkConfig(width=6, hidden=9),
    EdgeNetworkConfig(width=6, hidden=9, uses_times=True),
    EdgeNetworkConfig(width=6, hidden=9, remaining_edges=True),
    EdgeNetworkConfig(width=6, hidden=9, uses_times=True, remaining_edges=True),
]
IDS = ["plain", "times", "remaining", "both"]


def sigmoid(values: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-values)), dtype=np.float64)


class Reference:
    """Equations 5.1 to 5.6 of the thesis for one graph, node by node and edge by edge."""

    def __init__(self, network: EdgeNetwork) -> None:
        self.config = network.config
        self.weights: Mapping[str, Floats] = {
            name: value.double().numpy() for name, value in network.state_dict().items()
        }

    def linear(self, name: str, values: Floats) -> Floats:
        bias = self.weights.get(f"{name}.bias", np.zeros(1))
        return self.weights[f"{name}.weight"] @ values + bias

    def function(self, name: str, *inputs: Floats) -> Floats:
        """One hidden layer of rectified units on the concatenated inputs."""
        hidden = sum(self.linear(f"{name}.inputs.{k}", x) for k, x in enumerate(inputs))
        return self.linear(f"{name}.output", np.maximum(hidden, 0.0))

    def graph(self, nodes: list[Floats], n_remaining: int) -> Floats:
        total = np.zeros(2 * self.config.width)
        for node in nodes:
            total += sigmoid(self.linear("nodes.gate", node)) * self.linear(
                "nodes.projection", node
            )
        if self.config.remaining_edges:
            return np.append(total, math.log(1 + n_remaining))
        return total

    def message(self, node: Floats, sender: Floats) -> Floats:
        hidden = self.linear("nodes.receiver", node) + self.linear("nodes.neighbour", sender)
        return self.linear("nodes.message", np.maximum(hidden, 0.0))

    def gated(self, message: Floats, node: Floats) -> Floats:
        """The gated recurrent unit: reset, update, candidate."""
        weights = self.weights
        of_input = weights["nodes.update.weight_ih"] @ message + weights["nodes.update.bias_ih"]
        of_state = weights["nodes.update.weight_hh"] @ node + weights["nodes.update.bias_hh"]
        reset, update, candidate = np.split(of_input, 3)
        reset_state, update_state, candidate_state = np.split(of_state, 3)
        new = np.tanh(candidate + sigmoid(reset + reset_state) * candidate_state)
        share = sigmoid(update + update_state)
        return np.asarray((1 - share) * new + share * node, dtype=np.float64)

    def time_weight(self, elapsed: float, scale: float) -> float:
        if not self.config.uses_times:
            return 1.0
        argument = np.array([1.0 / (1.0 + elapsed / scale)])
        hidden = np.maximum(self.linear("time_weight.0", argument), 0.0)
        return float(np.log1p(np.exp(self.linear("time_weight.2", hidden)[0])))

    def log_likelihood(self, graph: EdgeSequence) -> float:
        """Algorithm 4 without its gradient step."""
        times = graph.times
        n_edges = len(graph)
        scale = (times[-1] - times[0]) / (n_edges - 1) if times[-1] > times[0] else 1.0
        nodes: list[Floats] = []
        total = 0.0
        for step, (sender, recipient) in enumerate(graph.edges.tolist()):
            embedded = self.graph(nodes, n_edges - step)
            logits = [self.function("sender", node, embedded)[0] for node in nodes]
            logits.append(self.function("new_sender", embedded)[0])
            total += logits[sender] - float(np.logaddexp.reduce(logits))
            if sender == len(nodes):
                nodes.append(self.function("start", embedded))
            embedded = self.graph(nodes, n_edges - step)
            of_sender = nodes[sender]
            logits = [self.function("recipient", v, of_sender, embedded)[0] for v in nodes]
            logits.append(self.function("new_recipient", embedded, of_sender)[0])
            total += logits[recipient] - float(np.logaddexp.reduce(logits))
            if recipient == len(nodes):
                nodes.append(self.function("start", embedded))
            nodes = self.updated(nodes, graph, step, scale)
        return total

    def updated(
        self, nodes: list[Floats], graph: EdgeSequence, step: int, scale: float
    ) -> list[Floats]:
        """Every node after one round of messages along the edges up to this step."""
        totals = [np.zeros(self.config.width) for _ in nodes]
        for k in range(step + 1):
            first, second = graph.edges[k].tolist()
            weight = self.time_weight(float(graph.times[step] - graph.times[k]), scale)
            totals[first] = totals[first] + weight * self.message(nodes[first], nodes[second])
            if first != second:
                totals[second] = totals[second] + weight * self.message(nodes[second], nodes[first])
        return [self.gated(total, node) for total, node in zip(totals, nodes, strict=True)]


@pytest.mark.parametrize("config", VARIANTS, ids=IDS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)], ids=["64", "32"]
)
def test_padded_batch_has_the_likelihoods_of_a_walk_through_each_graph(
    config: EdgeNetworkConfig, dtype: torch.dtype, tolerance: float
) -> None:
    network = new_network(config, seed=3, dtype=dtype)
    with torch.no_grad():
        values = log_likelihood(network, batch_of(GRAPHS, dtype=dtype)).tolist()
    expected = [Reference(network).log_likelihood(graph) for graph in GRAPHS]
    assert min(abs(value) for value in expected) > 0.1
    assert values == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("alpha", "sigma"),
    [
        (Fraction(1), Fraction(7, 10)),
        (Fraction(-1, 5), Fraction(2, 5)),
        (Fraction(3), Fraction(1, 4)),
    ],
)
def test_hollywood_probability_is_the_product_over_nodes(alpha: Fraction, sigma: Fraction) -> None:
    """In exact arithmetic, without regard to the order in which the ends were drawn.

    With N nodes of degrees D and k ends, it is prod_(i=1)^(N-1) (alpha + i sigma) times
    prod_v prod_(m=1)^(D_v - 1) (m - sigma), over prod_(j=1)^(k-1) (alpha + j) (Pitman).
    """
    process = HollywoodProcess(float(alpha), float(sigma))
    for graph in GRAPHS:
        ends = graph.edges.ravel()
        p = Fraction(1)
        for i in range(1, graph.n_nodes):
            p *= alpha + i * sigma
        for degree in np.bincount(ends).tolist():
            for m in range(1, degree):
                p *= m - sigma
        for j in range(1, len(ends)):
            p /= alpha + j
        expected = math.log(p.numerator) - math.log(p.denominator)
        assert process.log_probability(graph) == pytest.approx(expected, rel=1e-12)
        assert math.exp(process.log_probability(graph)) == pytest.approx(float(p), rel=1e-12)
