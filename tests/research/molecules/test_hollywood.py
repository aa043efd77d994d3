"""The binary Hollywood process: probabilities by hand, invariance, and the number of nodes."""

import math

import numpy as np
import pytest

from bandgap.research.molecules.sequences import sequence_of
from benchmarks.studies.hollywood import HollywoodProcess

EDGES = [(0, 1), (1, 1), (2, 0), (1, 3), (0, 1)]


def test_probabilities_of_a_short_graph_are_those_by_hand() -> None:
    """1, then (1 + 0.7) / 2, (1 - 0.7) / 3 and (1 + 1.4) / 4."""
    process = HollywoodProcess(alpha=1.0, sigma=0.7)
    log_p = process.log_probability(sequence_of([(0, 1), (1, 2)]))
    assert math.exp(log_p) == pytest.approx(0.85 * 0.1 * 0.6, rel=1e-12)


@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 0.7), (0.0, 0.5), (-0.3, 0.4), (5.0, 0.1)])
def test_probabilities_sum_to_one(alpha: float, sigma: float) -> None:
    process = HollywoodProcess(alpha, sigma)
    assert process.probabilities(np.array([3.0, 1.0, 2.0])).sum() == pytest.approx(1, abs=1e-12)


def test_probability_does_not_depend_on_the_order_of_edges() -> None:
    process = HollywoodProcess(alpha=0.4, sigma=0.6)
    rng = np.random.default_rng(0)
    expected = process.log_probability(sequence_of(EDGES))
    for _ in range(10):
        edges = [EDGES[i] for i in rng.permutation(len(EDGES))]
        log_p = process.log_probability(sequence_of(edges))
        assert log_p == pytest.approx(expected, abs=1e-12)


def test_probabilities_of_all_graphs_of_two_edges_sum_to_one() -> None:
    process = HollywoodProcess(alpha=0.3, sigma=0.55)
    ends = [(0, b, c, d) for b in range(2) for c in range(b + 2) for d in range(max(b, c) + 2)]
    total = sum(
        math.exp(process.log_probability(sequence_of([(a, b), (c, d)]))) for a, b, c, d in ends
    )
    assert len(ends) == 15  # Bell number of 4
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "sigma", "n_edges", "expected"),
    [(1.0, 0.7, 10, 11.75), (1.0, 0.7, 50, 38.3), (1.0, 0.7, 500, 196.6)],
)
def test_expected_nodes_are_those_of_the_specification(
    alpha: float, sigma: float, n_edges: int, expected: float
) -> None:
    assert HollywoodProcess(alpha, sigma).expected_nodes(n_edges) == pytest.approx(
        expected, abs=0.06
    )


@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 0.7), (0.0, 0.5), (-0.3, 0.4)])
def test_expected_nodes_follow_the_recursion(alpha: float, sigma: float) -> None:
    """E N grows by (alpha + sigma E N) / (alpha + k) with every end, also for alpha <= 0."""
    expected = 1.0
    for k in range(1, 40):
        expected += (alpha + sigma * expected) / (alpha + k)
    assert HollywoodProcess(alpha, sigma).expected_nodes(20) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "n_edges",
    [
        10,
        pytest.param(50, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.slow),
    ],
)
def test_simulated_numbers_of_nodes_have_the_exact_mean(n_edges: int) -> None:
    """400 graphs, 4 standard errors: a false alarm once in 16,000 seeds."""
    process = HollywoodProcess(alpha=1.0, sigma=0.7)
    rng = np.random.default_rng(n_edges)
    counts = np.array([process.simulate(n_edges, rng).n_nodes for _ in range(400)])
    error = counts.std(ddof=1) / math.sqrt(400)
    assert abs(counts.mean() - process.expected_nodes(n_edges)) < 4 * error
