"""The binary Hollywood process: probabilities by hand, invariance, and the number of nodes."""

import math

import numpy as np
import pytest

from benchmarks.studies.hollywood import HollywoodProcess


@pytest.mark.parametrize(("alpha", "sigma"), [(1.0, 0.7), (0.0, 0.5), (-0.3, 0.4), (5.0, 0.1)])
def test_probabilities_sum_to_one(alpha: float, sigma: float) -> None:
    process = HollywoodProcess(alpha, sigma)
    assert process.probabilities(np.array([3.0, 1.0, 2.0])).sum() == pytest.approx(1, abs=1e-12)


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
