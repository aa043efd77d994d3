r"""The binary Hollywood process: a distribution of sequences of edges with a known density.

Ends of edges are drawn one after the other. With k ends drawn so far, N nodes seen, and node i
drawn D(i) times,

    P(next end = i) = (D(i) - sigma) / (alpha + k),   P(new node) = (alpha + sigma N) / (alpha + k)

for 0 < sigma < 1 and alpha > -sigma. The sender of an edge counts when its recipient is drawn. The
probability of a graph does not depend on the order of its edges. Graphs are sparse, o(N^2) edges,
only for sigma > 1/2, because N grows like n^sigma.

References: H. Crane and W. Dempsey, Edge exchangeable models for network data (2016); E. A. Ott,
thesis (2022), equations 5.7 and 5.8.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bandgap.research.molecules.sequences import EdgeSequence, sequence_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HollywoodProcess:
    """A binary Hollywood process."""

    alpha: float = 1.0
    sigma: float = 0.7

    def probabilities(self, counts: Floats) -> Floats:
        """Return the probabilities (N + 1,) of the N nodes seen and, last, of a new node.

        `counts` (N,) says how often each node was drawn.
        """
        weights = np.append(counts - self.sigma, self.alpha + self.sigma * len(counts))
        return np.asarray(weights / weights.sum())

    def log_probability(self, graph: EdgeSequence) -> float:
        """Return the log-probability of a sequence of edges in nats."""
        ends = graph.edges.ravel()
        return sum(
            float(np.log(self.probabilities(np.bincount(ends[:k]).astype(np.float64))[node]))
            for k, node in enumerate(ends)
        )

    def simulate(self, n_edges: int, rng: np.random.Generator) -> EdgeSequence:
        """Return a random sequence of `n_edges` edges."""
        counts = np.zeros(2 * n_edges)
        n_nodes = 0
        ends = np.empty(2 * n_edges, dtype=np.int64)
        for k in range(2 * n_edges):
            total = np.cumsum(self.probabilities(counts[:n_nodes]))
            node = min(int(np.searchsorted(total, rng.random(), side="right")), n_nodes)
            n_nodes = max(n_nodes, node + 1)
            counts[node] += 1.0
            ends[k] = node
        return sequence_of(ends.reshape(-1, 2))

    def expected_nodes(self, n_edges: int) -> float:
        """Return the exact expected number of nodes after `n_edges` edges.

        E|V_n| = Gamma(a + s + 2n) Gamma(a + 1) / (s Gamma(a + 2n) Gamma(a + s)) - a / s. Equation
        5.8 of the thesis is its leading term, which is too high by about a / s.
        """
        a = self.alpha
        s = self.sigma
        n_ends = 2 * n_edges
        # Every argument is positive, because -sigma < alpha and 2n >= 2.
        log_ratio = gammaln(a + s + n_ends) - gammaln(a + n_ends) + gammaln(a + 1) - gammaln(a + s)
        return float(np.exp(log_ratio) / s - a / s)
