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

from bandgap.foundation.errors import ConfigError
from bandgap.research.molecules.sequences import EdgeSequence, sequence_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HollywoodProcess:
    """A binary Hollywood process; raises ConfigError unless 0 < sigma < 1 and alpha > -sigma."""

    alpha: float = 1.0
    sigma: float = 0.7

    def __post_init__(self) -> None:
        if not (0 < self.sigma < 1 and self.alpha > -self.sigma):
            raise ConfigError(
                f"Hollywood process: alpha {self.alpha:g}, sigma {self.sigma:g}. Accepted: "
                "0 < sigma < 1 and alpha > -sigma."
            )

    def probabilities(self, counts: Floats) -> Floats:
        """Return the probabilities (N + 1,) of the N nodes seen and, last, of a new node.

        `counts` (N,) says how often each node was drawn.
        """
        old = counts - self.sigma
        new = self.alpha + self.sigma * len(counts)
        total = self.alpha + counts.sum()
        if len(counts) == 0:
            return np.ones(1)
        probabilities: Floats = np.append(old, new) / total
        return probabilities

    def log_probability(self, graph: EdgeSequence) -> float:
        """Return the log-probability of a sequence of edges in nats."""
        counts: list[float] = []
        total = 0.0
        for node in graph.edges.ravel().tolist():
            total += float(np.log(self.probabilities(np.array(counts))[node]))
            if node == len(counts):
                counts.append(0.0)
            counts[node] += 1.0
        return total

    def simulate(self, n_edges: int, rng: np.random.Generator) -> EdgeSequence:
        """Return a random sequence of `n_edges` edges."""
        counts: list[float] = []
        ends: list[int] = []
        for _ in range(2 * n_edges):
            probabilities = self.probabilities(np.array(counts))
            node = int(rng.choice(len(probabilities), p=probabilities))
            if node == len(counts):
                counts.append(0.0)
            counts[node] += 1.0
            ends.append(node)
        return sequence_of(np.array(ends, dtype=np.int64).reshape(-1, 2))

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
