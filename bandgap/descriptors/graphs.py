"""The readout of a graph network that a source model trained, as a block of the feature vector.

A descriptor contains the network's config and a digest of its weights. The weights themselves are
a file in the folder of every source and run whose descriptor uses them
(`sources.stored_descriptor`).
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.block_settings import GraphBody
from bandgap.descriptors.blocks import Block
from bandgap.foundation.errors import ConfigError
from bandgap.networks.graph_config import GraphConfig
from bandgap.structures.neighbours import close_vectors_of

if TYPE_CHECKING:
    from ase import Atoms

    from bandgap.networks.megnet import Graphs, Megnet

# Neighbours at most this much farther away than the last accepted one are accepted too, so that
# rounding does not choose between neighbours at equal distances.
TIE_ANGSTROM: Final = 0.01


def graph_of(atoms: "Atoms", config: GraphConfig) -> "Graphs":
    """Return the graph of a structure; its bonds point from a neighbour to its atom.

    All elements of the structure must be in `config.species`.
    """
    import torch

    from bandgap.networks.megnet import Graphs

    i, j, vectors = close_vectors_of(atoms, config.cutoff_angstrom)
    lengths = np.linalg.norm(vectors, axis=1)
    neighbour = np.concatenate([i, j])
    atom = np.concatenate([j, i])
    distances = np.concatenate([lengths, lengths])
    bonds = _nearest(atom, distances, len(atoms), config.max_neighbours)
    kinds = [config.species.index(symbol) for symbol in atoms.symbols]
    return Graphs(
        torch.tensor(kinds),
        torch.from_numpy(np.stack([neighbour, atom])[:, bonds].astype(np.int64)),
        torch.from_numpy(distances[bonds].astype(np.float32)),
        torch.zeros(len(atoms), dtype=torch.int64),
    )


def _nearest(
    atom: NDArray[np.intp], distances: NDArray[np.float64], n_atoms: int, max_neighbours: int
) -> NDArray[np.intp]:
    """Return the indices of the bonds to the nearest neighbours, sorted by atom and distance.

    `atom` and `distances` (bond,) are the end and the length of every bond.
    """
    order = np.lexsort((distances, atom))
    first = np.searchsorted(atom[order], np.arange(n_atoms))
    rank = np.arange(len(order)) - first[atom[order]]
    farthest = np.full(n_atoms, np.inf)
    is_last = rank == max_neighbours - 1
    farthest[atom[order][is_last]] = distances[order][is_last]
    is_near = distances[order] <= farthest[atom[order]] + TIE_ANGSTROM
    bonds: NDArray[np.intp] = order[is_near]
    return bonds


def readout(atoms: "Atoms", body: GraphBody) -> NDArray[np.float64]:
    """Return the readout (n_features,) of a structure."""
    import torch

    with torch.no_grad():
        features = _network(body)(graph_of(atoms, body.config))
    return np.asarray(features[0].numpy(), dtype=np.float64)


def check_body(body: GraphBody) -> None:
    """Raise ConfigError if torch_geometric is not installed or the weights are missing."""
    import bandgap.networks.megnet  # noqa: F401 - it raises ConfigError with what to install

    if not body.weights:
        raise ConfigError(
            "The descriptor is the readout of a graph network whose weights are not here. Take it "
            "from the folder of the source model or run (load_source, load_run), which has them."
        )


@lru_cache(maxsize=4)
def _network(body: GraphBody) -> "Megnet":
    from bandgap.networks.megnet import megnet_of

    return megnet_of(body.config, dict(body.weights))


BLOCK: Final = Block(
    "graph",
    width=lambda body: 0 if body is None else body.config.n_features,
    name=lambda body: f"readout of graph network {body.digest}",
    describe=readout,
    elements=lambda body: body.config.species,
    reach_angstrom=lambda body: body.config.cutoff_angstrom,
    measures_similarity=True,
    check=check_body,
)
