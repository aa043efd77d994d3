"""Distances between sets of graphs: by hand, zero for equal sets, symmetric."""

import math

import networkx
import numpy as np
import pytest

from bandgap.research.molecules.sequences import (
    sequence_of,
)
from benchmarks.graph_metrics import (
    adjacency,
    clustering_coefficients,
    degree_histogram,
    density,
    graph_distances,
    laplacian_spectrum,
    mmd,
)
from benchmarks.graph_sets import (
    barabasi_albert,
    cycle,
    cycles,
    ladders,
)

TRIANGLE = sequence_of([(0, 1), (1, 2), (2, 0)])
PATH = sequence_of([(0, 1), (1, 2)])
LOOPED = sequence_of([(0, 0), (1, 2), (2, 1)])  # node 0 is left without edges


def test_loops_and_repeats_are_dropped_and_isolated_nodes_stay() -> None:
    matrix = adjacency(LOOPED)
    assert degree_histogram(matrix, n_bins=3).tolist() == pytest.approx([1 / 3, 2 / 3, 0])
    assert density(matrix) == pytest.approx(1 / 3)
    assert laplacian_spectrum(matrix) == pytest.approx([0, 0, 2], abs=1e-12)


def test_clustering_and_spectrum_are_those_of_networkx() -> None:
    graph = barabasi_albert(18, np.random.default_rng(3))
    simple = networkx.Graph()
    simple.add_nodes_from(range(graph.n_nodes))
    simple.add_edges_from(graph.edges.tolist())
    matrix = adjacency(graph)
    assert clustering_coefficients(matrix) == pytest.approx(
        list(networkx.clustering(simple).values())
    )
    assert laplacian_spectrum(matrix) == pytest.approx(
        np.sort(networkx.normalized_laplacian_spectrum(simple)), abs=1e-10
    )


def test_degree_distance_of_three_graphs_is_that_by_hand() -> None:
    """Degrees: triangle (0, 0, 1), path (0, 2/3, 1/3), so that d = 2/3.

    X has the triangle, Y the triangle and the path: MMD^2 = 1 + (2 + 2 k) / 4 - (1 + k), which is
    (1 - k) / 2 with k = exp(-d^2 / 2).
    """
    distances = graph_distances([TRIANGLE], [TRIANGLE, PATH])
    k = math.exp(-((2 / 3) ** 2) / 2)
    assert distances.degree == pytest.approx(math.sqrt((1 - k) / 2), rel=1e-12)
    k_exponential = math.exp(-(2 / 3) / 2)
    assert distances.degree_exponential == pytest.approx(
        math.sqrt((1 - k_exponential) / 2), rel=1e-12
    )
    assert distances.density_ks == pytest.approx(0.5)


def test_clustering_and_spectral_distances_of_three_graphs_are_those_by_hand() -> None:
    """The same three graphs; MMD is sqrt((1 - k) / 2) of the one kernel k between different ones.

    Clustering is 1 at every node of the triangle and 0 at those of the path: d = 1. The spectra are
    (0, 1.5, 1.5) and (0, 1, 2), which share one eigenvalue of three: d = 2/3.
    """
    distances = graph_distances([TRIANGLE], [TRIANGLE, PATH])
    k_clustering = math.exp(-(1.0**2) / (2 * 0.1**2))
    assert distances.clustering == pytest.approx(math.sqrt((1 - k_clustering) / 2), rel=1e-12)
    k_spectrum = math.exp(-((2 / 3) ** 2) / 2)
    assert distances.spectrum == pytest.approx(math.sqrt((1 - k_spectrum) / 2), rel=1e-12)


def test_distances_of_equal_sets_are_zero_and_order_has_no_effect() -> None:
    rng = np.random.default_rng(0)
    graphs = [*cycles(10, rng), *ladders(10, rng)]
    same = graph_distances(graphs, graphs[::-1])
    assert (same.degree, same.clustering, same.spectrum, same.density_ks) == (0, 0, 0, 0)
    forth = graph_distances(graphs[:10], graphs[10:])
    back = graph_distances(graphs[10:], graphs[:10])
    assert forth.degree == pytest.approx(back.degree, rel=1e-12)
    assert forth.spectrum == pytest.approx(back.spectrum, rel=1e-12)
    assert forth.degree > 0.1
    # eigenvalues of a ring of twelve lie on edges of bins
    ring = cycle(12).edges
    reordered = [sequence_of(ring[rng.permutation(12)]) for _ in range(20)]
    assert graph_distances([sequence_of(ring)], reordered).spectrum == 0


def test_cycles_and_their_open_paths_have_the_distance_of_the_specification() -> None:
    """A generator of paths scores 0.088 for degrees and 0.175 for spectra against cycles."""
    graphs = [cycle(n) for n in range(10, 41)]
    paths = [sequence_of([(i, i + 1) for i in range(n)]) for n in range(10, 41)]
    assert graph_distances(paths, graphs).degree == pytest.approx(0.088, abs=0.001)
    # The spectral distance contains the scatter of two sets of 100 graphs: 0.178 +- 0.011.
    rng = np.random.default_rng(0)
    sampled_cycles = cycles(100, rng)
    sampled_paths = [paths[len(graph) - 10] for graph in cycles(100, rng)]
    distances = graph_distances(sampled_paths, sampled_cycles)
    assert distances.spectrum == pytest.approx(0.175, abs=0.04)


def test_mmd_of_a_negative_sum_is_zero() -> None:
    """The kernel is not positive definite: for these histograms the sum is -0.158."""
    first = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    second = np.array([[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]])
    k_half = math.exp(-(0.5**2) / 2)
    k_one = math.exp(-1 / 2)
    assert (1 + k_one) - 2 * k_half == pytest.approx(-0.158, abs=0.001)
    assert mmd(first, second, sigma=1.0) == 0.0
    assert mmd(first, second, sigma=1.0, kernel="exponential") > 0.0
