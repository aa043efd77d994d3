"""Graphs as sequences of edges, and orders of edges.

Nodes are numbered by their first appearance: 0, 1, 2, ... Repeated edges and self-loops are
allowed. Reference: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), section 5.4.2.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EdgeSequence:
    """A graph as the sequence of its edges.

    Parameters
    ----------
    edges
        Sender and recipient of every edge, (n, 2), n of 1 or more; nodes numbered by appearance.
    times
        Time of every edge, (n,), not decreasing.
    """

    edges: Ints
    times: Floats

    def __post_init__(self) -> None:
        if self.edges.ndim != 2 or self.edges.shape[1] != 2 or self.edges.shape[0] < 1:
            raise InputError(f"edges have shape {self.edges.shape}. Accepted: (n, 2) with n >= 1.")
        if self.times.shape != (len(self.edges),) or np.any(np.diff(self.times) < 0):
            raise InputError(
                f"times have shape {self.times.shape} for {len(self.edges)} edges, or decrease. "
                "Accepted: one time for every edge, not decreasing."
            )
        if not np.array_equal(renumbered(self.edges), self.edges):
            raise InputError("nodes are not numbered 0, 1, 2, ... by appearance: `sequence_of`.")

    @property
    def n_nodes(self) -> int:
        return int(self.edges.max()) + 1

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.edges)


def renumbered(edges: Ints) -> Ints:
    """Return edges (n, 2) with nodes numbered by their first appearance.

    >>> renumbered(np.array([[7, 3], [3, 5]])).tolist()
    [[0, 1], [1, 2]]
    """
    _, first, inverse = np.unique(edges.ravel(), return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    numbers: Ints = rank[inverse].reshape(edges.shape)
    return numbers


def sequence_of(
    edges: Iterable[tuple[int, int]] | Ints, times: Sequence[float] | Floats | None = None
) -> EdgeSequence:
    """Return the sequence of edges between nodes of any numbers; default times are 1, 2, ..., n."""
    array = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges), dtype=np.int64)
    clock = np.arange(1, len(array) + 1) if times is None else times
    return EdgeSequence(renumbered(array), np.asarray(clock, dtype=np.float64))


def breadth_first(edges: Ints, rng: np.random.Generator) -> Ints:
    """Return the edges of a connected simple graph (n, 2), breadth-first from a random node.

    The node that is met first is the sender; neighbours are visited in a random order.
    """
    n_nodes = int(edges.max()) + 1
    neighbours: list[list[int]] = [[] for _ in range(n_nodes)]
    for first, second in edges.tolist():
        neighbours[first].append(second)
        neighbours[second].append(first)
    start = int(rng.integers(n_nodes))
    queue = [start]
    is_visited = np.zeros(n_nodes, dtype=bool)
    is_visited[start] = True
    is_done = np.zeros(n_nodes, dtype=bool)
    walk: list[tuple[int, int]] = []
    for sender in queue:
        for recipient in rng.permutation(neighbours[sender]).tolist():
            if is_done[recipient]:
                continue
            walk.append((sender, recipient))
            if not is_visited[recipient]:
                is_visited[recipient] = True
                queue.append(recipient)
        is_done[sender] = True
    return np.array(walk, dtype=np.int64)
