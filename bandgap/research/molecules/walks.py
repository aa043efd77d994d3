"""Molecules as breadth-first walks over their bonds, which the network of molecules draws.

Reference: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), section 5.4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.proposals.molecules import MoleculeGraph, Vocabulary
from bandgap.research.molecules.sequences import breadth_first

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MoleculeWalk:
    """Bonds in the order in which they are drawn.

    Parameters
    ----------
    labels
        Index of the label of every atom, (N,), atoms in the order of their appearance.
    edges, orders
        Bonds (n, 2), sender first, and their orders (n,).
    """

    labels: Ints
    edges: Ints
    orders: Ints


def random_walk(
    graph: MoleculeGraph, vocabulary: Vocabulary, rng: np.random.Generator
) -> MoleculeWalk:
    """Return the bonds of a molecule, breadth-first from a random heavy atom."""
    order_of = {
        frozenset(edge): order
        for edge, order in zip(map(tuple, graph.edges.tolist()), graph.orders.tolist(), strict=True)
    }
    walk = breadth_first(graph.edges, rng)
    atoms = list(dict.fromkeys(walk.ravel().tolist()))
    number_of = {atom: number for number, atom in enumerate(atoms)}
    index_of = {label: index for index, label in enumerate(vocabulary.labels)}
    return MoleculeWalk(
        np.array([index_of[graph.labels[atom]] for atom in atoms], dtype=np.int64),
        np.array([[number_of[s], number_of[r]] for s, r in walk.tolist()], dtype=np.int64),
        np.array([order_of[frozenset(edge)] for edge in walk.tolist()], dtype=np.int64),
    )


def graph_of_walk(walk: MoleculeWalk, vocabulary: Vocabulary) -> MoleculeGraph:
    """Return the molecule of a walk."""
    labels = tuple(vocabulary.labels[index] for index in walk.labels.tolist())
    return MoleculeGraph(labels, walk.edges, walk.orders)
