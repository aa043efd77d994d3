"""The graph of a crystal that CHGNet reads, by array operations.

It has the same numbers in the same order as CHGNet's own converter, which makes an object of each
edge and takes three times as long.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CUTOFF_ANGSTROM: Final = 6.0
BOND_CUTOFF_ANGSTROM: Final = 3.0

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Centre and neighbour (edge,), image (edge, 3) and distance (edge,).
Edges = tuple[Indices, Indices, Indices, Floats]


def edges_of(structure: Any) -> Edges:
    """Return the directed edges of a pymatgen structure, each of which has its reverse."""
    edges: Edges = structure.get_neighbor_list(
        r=CUTOFF_ANGSTROM, sites=structure.sites, numerical_tol=1e-8
    )
    return edges


def graph_of(structure: Any, edges: Edges) -> Any:
    """Return the CrystalGraph of a structure."""
    import torch
    from chgnet.graph.crystalgraph import CrystalGraph

    def integers(values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.int32)

    def reals(values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float32)

    centre, neighbour, image, distance = edges
    number, first = _undirected(centre, neighbour, image.astype(np.int64))
    angles = _angles(centre, neighbour, distance, number, distance[first][number])
    return CrystalGraph(
        atomic_number=integers(structure.atomic_numbers),
        atom_frac_coord=reals(structure.frac_coords),
        atom_graph=integers(np.column_stack([centre, neighbour])),
        neighbor_image=reals(image),
        directed2undirected=integers(number),
        undirected2directed=integers(first),
        bond_graph=integers(angles),
        lattice=reals(structure.lattice.matrix),
        atom_graph_cutoff=CUTOFF_ANGSTROM,
        bond_graph_cutoff=BOND_CUTOFF_ANGSTROM,
    )


def _undirected(centre: Indices, neighbour: Indices, image: Indices) -> tuple[Indices, Indices]:
    """Return the number (edge,) of each edge without its direction, and its first edge (number,).

    Numbers are in the order of the first edges.
    """
    n = int(centre.max()) + 1
    reach = int(np.abs(image).max())
    base = 2 * reach + 1

    def key(a: Indices, b: Indices, shift: Indices) -> Indices:
        keys: Indices = (a * n + b) * base**3 + (shift + reach) @ np.array([base**2, base, 1])
        return keys

    both_ways = np.minimum(key(centre, neighbour, image), key(neighbour, centre, -image))
    _, first, group = np.unique(both_ways, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group], np.sort(first)


def _angles(
    centre: Indices, neighbour: Indices, distance: Floats, number: Indices, undirected: Floats
) -> Indices:
    """Return the angles (angle, 5): atom, number and edge of one bond, and of the other.

    `undirected` (edge,) is the distance of the first of an edge and its reverse.
    """
    pair = centre * (int(centre.max()) + 1) + neighbour
    _, first, group = np.unique(pair, return_index=True, return_inverse=True)
    of_atom = np.lexsort((first[group], centre))  # edges of an atom, by neighbour
    second_edges = of_atom[distance[of_atom] < BOND_CUTOFF_ANGSTROM]
    counts = np.bincount(centre[second_edges], minlength=int(centre.max()) + 1)
    bonds = np.argsort(number, kind="stable")
    bonds = bonds[undirected[bonds] <= BOND_CUTOFF_ANGSTROM]
    n_others = counts[centre[bonds]]
    one = np.repeat(bonds, n_others)
    place = np.arange(one.size) - np.repeat(np.cumsum(n_others) - n_others, n_others)
    other = second_edges[(np.cumsum(counts) - counts)[centre[one]] + place]
    one, other = one[one != other], other[one != other]
    return np.column_stack([centre[one], number[one], one, number[other], other])
