"""Molecules as graphs of heavy atoms with labels and bond orders, and random changes of them.

The valence of a label includes hydrogens, which are no nodes: a graph whose bonds use no more than
the valence of every atom is completed by hydrogens. Bonds are kekulised. Needs no RDKit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Ints = NDArray[np.int64]

Change = Callable[["MoleculeGraph", "Vocabulary", np.random.Generator], "MoleculeGraph | None"]

HIGHEST_ORDER: Final = 3  # of a bond
MOST_HEAVY_ATOMS: Final = 30


@dataclass(frozen=True, order=True)
class AtomLabel:
    """Element, formal charge and valence of an atom, such as N, 1, 4 in a nitro group."""

    symbol: str
    charge: int
    valence: int


@dataclass(frozen=True, eq=False)
class MoleculeGraph:
    """Labels of N heavy atoms, bonds (n, 2) between them, and the orders 1 to 3 of the bonds (n,).

    Raises InputError if bonds use more than the valence of an atom.
    """

    labels: tuple[AtomLabel, ...]
    edges: Ints
    orders: Ints

    def __post_init__(self) -> None:
        if np.any(self.free_valences < 0):
            atom = int(np.argmin(self.free_valences))
            raise InputError(f"bonds exceed the valence of atom {atom}, {self.labels[atom]}.")

    @property
    def free_valences(self) -> Ints:
        """Return the number of hydrogens of every atom, (N,)."""
        free = np.array([label.valence for label in self.labels], dtype=np.int64)
        np.subtract.at(free, self.edges.ravel(), np.repeat(self.orders, 2))
        return free

    @property
    def charge(self) -> int:
        return sum(label.charge for label in self.labels)


@dataclass(frozen=True)
class Vocabulary:
    """The atom labels of a training set, sorted.

    `counts` has the number of atoms of each, `most_hydrogens` the largest number of hydrogens at
    one of them, such as none for sulfur of valence 6.
    """

    labels: tuple[AtomLabel, ...]
    counts: tuple[int, ...]
    most_hydrogens: tuple[int, ...]

    @classmethod
    def of(cls, graphs: Iterable[MoleculeGraph]) -> "Vocabulary":
        """Return the labels of graphs."""
        counter: Counter[AtomLabel] = Counter()
        most: dict[AtomLabel, int] = {}
        for graph in graphs:
            counter.update(graph.labels)
            for label, n_hydrogens in zip(graph.labels, graph.free_valences.tolist(), strict=True):
                most[label] = max(n_hydrogens, most.get(label, 0))
        labels = tuple(sorted(counter))
        return cls(
            labels,
            tuple(counter[label] for label in labels),
            tuple(most[label] for label in labels),
        )

    def has_usual_hydrogens(self, graph: MoleculeGraph) -> bool:
        """Return whether no atom has more hydrogens than those of its label in the training set.

        False also where a label is not in the training set.
        """
        most = dict(zip(self.labels, self.most_hydrogens, strict=True))
        return all(
            n_hydrogens <= most.get(label, -1)
            for label, n_hydrogens in zip(graph.labels, graph.free_valences.tolist(), strict=True)
        )

    @property
    def valences(self) -> Ints:
        return np.array([label.valence for label in self.labels], dtype=np.int64)


def mutated(
    graph: MoleculeGraph, vocabulary: Vocabulary, rng: np.random.Generator
) -> MoleculeGraph:
    """Return a molecule with one random change; the baseline of the network.

    One of: another label for an atom, a new atom on a hydrogen's place, a terminal atom removed.
    New labels are drawn by their number in the training set.
    """
    changes: list[Change] = [_with_other_label, _with_new_atom, _without_terminal_atom]
    for index in rng.permutation(len(changes)):
        changed: MoleculeGraph | None = changes[index](graph, vocabulary, rng)
        if changed is not None and vocabulary.has_usual_hydrogens(changed):
            return changed
    return graph


def mutated_molecules(
    graphs: Sequence[MoleculeGraph], vocabulary: Vocabulary, count: int, rng: np.random.Generator
) -> list[MoleculeGraph]:
    """Return `count` molecules, each with 1 to 3 random changes of a random one of `graphs`."""
    molecules = []
    for _ in range(count):
        graph = graphs[int(rng.integers(len(graphs)))]
        for _ in range(int(rng.integers(1, 4))):
            graph = mutated(graph, vocabulary, rng)
        molecules.append(graph)
    return molecules


def _random_label(vocabulary: Vocabulary, is_allowed: Ints, rng: np.random.Generator) -> AtomLabel:
    weights = np.array(vocabulary.counts, dtype=np.float64) * is_allowed
    return vocabulary.labels[int(rng.choice(len(weights), p=weights / weights.sum()))]


def _with_other_label(
    graph: MoleculeGraph, vocabulary: Vocabulary, rng: np.random.Generator
) -> MoleculeGraph | None:
    atom = int(rng.integers(len(graph.labels)))
    old = graph.labels[atom]
    n_used = old.valence - int(graph.free_valences[atom])
    is_other = np.array([label != old for label in vocabulary.labels])
    is_allowed = ((vocabulary.valences >= n_used) & is_other).astype(np.int64)
    if not is_allowed.any():
        return None
    label = _random_label(vocabulary, is_allowed, rng)
    return replace(graph, labels=(*graph.labels[:atom], label, *graph.labels[atom + 1 :]))


def _with_new_atom(
    graph: MoleculeGraph, vocabulary: Vocabulary, rng: np.random.Generator
) -> MoleculeGraph | None:
    places = np.flatnonzero(graph.free_valences > 0)
    if not places.size or len(graph.labels) >= MOST_HEAVY_ATOMS:
        return None
    place = int(rng.choice(places))
    label = _random_label(vocabulary, np.ones(len(vocabulary.labels), dtype=np.int64), rng)
    return MoleculeGraph(
        (*graph.labels, label),
        np.vstack([graph.edges, [[place, len(graph.labels)]]]),
        np.append(graph.orders, 1),
    )


def _without_terminal_atom(
    graph: MoleculeGraph, vocabulary: Vocabulary, rng: np.random.Generator
) -> MoleculeGraph | None:
    n_bonds = np.bincount(graph.edges.ravel(), minlength=len(graph.labels))
    terminal = np.flatnonzero(n_bonds == 1)
    if len(graph.labels) < 3 or not terminal.size:
        return None
    atom = int(rng.choice(terminal))
    is_kept_bond = ~(graph.edges == atom).any(axis=1)
    edges = graph.edges[is_kept_bond]
    return MoleculeGraph(
        (*graph.labels[:atom], *graph.labels[atom + 1 :]),
        edges - (edges > atom),
        graph.orders[is_kept_bond],
    )
