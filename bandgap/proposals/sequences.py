"""Graphs as sequences of edges, the synthetic sets of the thesis, and orders of edges.

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


def cycle(n_nodes: int) -> EdgeSequence:
    """Return a cycle in its natural order: (0, 1), (1, 2), ..., (n - 1, 0)."""
    return sequence_of([(i, (i + 1) % n_nodes) for i in range(n_nodes)])


def ladder(n_nodes: int) -> EdgeSequence:
    """Return a ladder of an even number of nodes upwards: a rung, both rails, the next rung."""
    if n_nodes < 4 or n_nodes % 2:
        raise InputError(f"a ladder of {n_nodes} nodes. Accepted: an even number from 4.")
    edges = [(0, 1)]
    for i in range(2, n_nodes, 2):
        edges += [(i - 2, i), (i - 1, i + 1), (i, i + 1)]
    return sequence_of(edges)


def random_tree(n_nodes: int, rng: np.random.Generator) -> EdgeSequence:
    """Return a random recursive tree: every new node is attached to an earlier one, uniformly."""
    return sequence_of([(int(rng.integers(i)), i) for i in range(1, n_nodes)])


def barabasi_albert(n_nodes: int, rng: np.random.Generator, *, n_attached: int = 4) -> EdgeSequence:
    """Return a graph of Barabasi and Albert in breadth-first order from a random node.

    It starts with `n_attached` nodes without edges. Each new node is attached to as many different
    earlier nodes, the first one to all of them, then with probabilities by degree.
    """
    if n_nodes <= n_attached:
        raise InputError(f"{n_nodes} nodes. Accepted: more than {n_attached}.")
    edges: list[tuple[int, int]] = []
    ends: list[int] = []  # every node as often as its degree
    targets = list(range(n_attached))
    for new in range(n_attached, n_nodes):
        edges += [(new, target) for target in targets]
        ends += [*targets, *([new] * n_attached)]
        drawn: set[int] = set()
        while len(drawn) < n_attached:
            drawn.add(ends[int(rng.integers(len(ends)))])
        targets = sorted(drawn)
    return sequence_of(breadth_first(np.array(edges, dtype=np.int64), rng))


def cycles(
    count: int, rng: np.random.Generator, *, lowest: int = 10, highest: int = 40
) -> list[EdgeSequence]:
    """Return cycles of a uniform number of nodes from `lowest` to `highest`."""
    return [cycle(int(n)) for n in rng.integers(lowest, highest + 1, size=count)]


def ladders(
    count: int, rng: np.random.Generator, *, lowest: int = 10, highest: int = 40
) -> list[EdgeSequence]:
    """Return ladders of a uniform even number of nodes from `lowest` to `highest`."""
    return [ladder(2 * int(n)) for n in rng.integers(lowest // 2, highest // 2 + 1, size=count)]


def random_trees(
    count: int, rng: np.random.Generator, *, lowest: int = 10, highest: int = 40
) -> list[EdgeSequence]:
    """Return random recursive trees of a uniform number of nodes."""
    return [random_tree(int(n), rng) for n in rng.integers(lowest, highest + 1, size=count)]


def barabasi_albert_graphs(
    count: int, rng: np.random.Generator, *, lowest: int = 10, highest: int = 40
) -> list[EdgeSequence]:
    """Return graphs of Barabasi and Albert of a uniform number of nodes."""
    return [barabasi_albert(int(n), rng) for n in rng.integers(lowest, highest + 1, size=count)]
