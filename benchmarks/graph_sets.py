"""The synthetic sets of graphs of the thesis, as sequences of edges.

Reference: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), section 5.4.2.
"""

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.research.molecules.sequences import EdgeSequence, breadth_first, sequence_of


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
