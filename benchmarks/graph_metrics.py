r"""Distances between two sets of graphs: degrees, clustering, spectra and densities.

All are of the simple graph: self-loops are dropped, repeated edges are merged, and nodes that are
left without edges stay. The maximum mean discrepancy (MMD) is the square root of

    mean k(X, X) + mean k(Y, Y) - 2 mean k(X, Y),   k(x, y) = exp(-d^2 / (2 sigma^2))

with the total variation distance d = 0.5 sum |x_i - y_i| of normalised histograms. This kernel is
not positive definite, so that the sum may be negative; it is then taken as 0. The kernel
exp(-d / 2) is positive definite and is computed for comparison (O'Bray et al. 2021).

Reference: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), sections 5.4.4, C.1 and C.3. The
thesis prints d without a square and MMD without a root; only both together agree with its tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from bandgap.foundation.errors import InputError
from bandgap.research.molecules.sequences import EdgeSequence

Floats = NDArray[np.float64]
Kernel = Literal["gaussian", "exponential"]

SIGMA_DEGREE: Final = 1.0
SIGMA_CLUSTERING: Final = 0.1
SIGMA_SPECTRUM: Final = 1.0
CLUSTERING_BINS: Final = 100  # on [0, 1]
SPECTRUM_BINS: Final = 200  # on [0, 2]
_DECIMALS: Final = 9  # of eigenvalues, whose last digits depend on the order of the nodes


@dataclass(frozen=True)
class GraphDistances:
    """Distances between two sets of graphs.

    MMD of degrees, clustering and spectra with the kernel of the module's description, the same of
    degrees with exp(-d / 2), and the Kolmogorov-Smirnov statistic of the densities.
    """

    degree: float
    clustering: float
    spectrum: float
    density_ks: float
    degree_exponential: float


def adjacency(graph: EdgeSequence) -> Floats:
    """Return the adjacency matrix (N, N) of the simple graph."""
    matrix = np.zeros((graph.n_nodes, graph.n_nodes))
    senders, recipients = graph.edges.T
    matrix[senders, recipients] = 1.0
    matrix[recipients, senders] = 1.0
    np.fill_diagonal(matrix, 0.0)
    return matrix


def degree_histogram(matrix: Floats, *, n_bins: int) -> Floats:
    """Return the shares (n_bins,) of nodes with 0, 1, ... neighbours."""
    counts = np.bincount(matrix.sum(axis=1).astype(np.int64), minlength=n_bins)
    return np.asarray(counts / len(matrix), dtype=np.float64)


def clustering_coefficients(matrix: Floats) -> Floats:
    """Return, for every node, the share of pairs of its neighbours that are joined, (N,).

    It is 0 for nodes of less than two neighbours.
    """
    degrees = matrix.sum(axis=1)
    triangles = np.einsum("ij,jk,ki->i", matrix, matrix, matrix)
    pairs = degrees * (degrees - 1)
    shares: Floats = np.divide(triangles, pairs, out=np.zeros_like(degrees), where=pairs > 0)
    return shares


def laplacian_spectrum(matrix: Floats) -> Floats:
    """Return the eigenvalues (N,) of I - D^-1/2 A D^-1/2; rows of isolated nodes are zero."""
    degrees = matrix.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    laplacian = np.diag((degrees > 0).astype(np.float64)) - scale[:, None] * matrix * scale
    return np.asarray(np.linalg.eigvalsh(laplacian), dtype=np.float64)


def density(matrix: Floats) -> float:
    """Return the share of all possible edges that a simple graph has, 0 for a single node."""
    n = len(matrix)
    return float(matrix.sum() / (n * (n - 1))) if n > 1 else 0.0


def mmd(first: Floats, second: Floats, *, sigma: float, kernel: Kernel = "gaussian") -> float:
    """Return the MMD of two sets of histograms, (m, b) and (n, b), each row with the sum 1."""
    within = _mean_kernel(first, first, sigma, kernel) + _mean_kernel(second, second, sigma, kernel)
    squared = within - 2.0 * _mean_kernel(first, second, sigma, kernel)
    # Rounding leaves about 1e-16 for identical sets.
    return float(np.sqrt(squared)) if squared > 1e-14 else 0.0


def graph_distances(
    first: Sequence[EdgeSequence], second: Sequence[EdgeSequence]
) -> GraphDistances:
    """Return the distances between two sets of graphs; raise InputError for an empty set.

    Read them next to the distances between two halves of the training set: also perfect samples
    have distances above zero.
    """
    if not first or not second:
        raise InputError(f"sets of {len(first)} and {len(second)} graphs. Accepted: 1 or more.")
    matrices = [[adjacency(graph) for graph in graphs] for graphs in (first, second)]
    n_bins = 1 + int(max(m.sum(axis=1).max() for side in matrices for m in side))
    degrees = [np.array([degree_histogram(m, n_bins=n_bins) for m in side]) for side in matrices]
    clusterings = [
        np.array([_histogram(clustering_coefficients(m), CLUSTERING_BINS, upper=1.0) for m in side])
        for side in matrices
    ]
    spectra = [
        np.array([_histogram(laplacian_spectrum(m), SPECTRUM_BINS, upper=2.0) for m in side])
        for side in matrices
    ]
    densities = [np.array([density(m) for m in side]) for side in matrices]
    return GraphDistances(
        degree=mmd(*degrees, sigma=SIGMA_DEGREE),
        clustering=mmd(*clusterings, sigma=SIGMA_CLUSTERING),
        spectrum=mmd(*spectra, sigma=SIGMA_SPECTRUM),
        density_ks=float(ks_2samp(densities[0], densities[1]).statistic),
        degree_exponential=mmd(*degrees, sigma=SIGMA_DEGREE, kernel="exponential"),
    )


def _histogram(values: Floats, n_bins: int, *, upper: float) -> Floats:
    # Eigenvalues lie in [0, 2], and some on the edge of a bin, up to rounding.
    exact = np.clip(np.round(values, _DECIMALS), 0.0, upper)
    counts, _ = np.histogram(exact, bins=n_bins, range=(0.0, upper))
    return np.asarray(counts / len(values), dtype=np.float64)


def _mean_kernel(first: Floats, second: Floats, sigma: float, kernel: Kernel) -> float:
    total = 0.0
    for row in first:
        distances = 0.5 * np.abs(second - row).sum(axis=1)
        exponent = distances**2 if kernel == "gaussian" else distances
        total += float(np.exp(-exponent / (2 * sigma**2)).mean())
    return total / len(first)
