"""Structures by the readout of a graph network that a source model trained: atoms to graphs, and the network as a part.

A descriptor holds the network's config and a digest of its weights; the weights themselves are a file of their own
beside every source and run that describes structures by them (`sources.stored_descriptor`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.parts import Part
from bandgap.foundation.config import APART
from bandgap.foundation.errors import ConfigError
from bandgap.networks.graph_config import GraphConfig
from bandgap.structures.neighbours import close_vectors, complete_cell

if TYPE_CHECKING:
    from ase import Atoms

    from bandgap.networks.megnet import Graphs, Megnet

TIE_ANGSTROM: Final = (
    0.01  # neighbours no farther than this behind the last one that is taken are taken too
)


@dataclass(frozen=True)
class GraphBody:
    """A trained graph network: its shape, a digest of its weights, and the weights (float32, on the CPU) by name."""

    config: GraphConfig
    digest: str
    weights: Mapping[str, Any] = field(
        default_factory=dict, repr=False, compare=False, metadata=APART
    )

    @classmethod
    def of(cls, config: GraphConfig, weights: Mapping[str, Any]) -> "GraphBody":
        """Return a network with these weights."""
        return cls(config, digest_of(weights), dict(weights))


def digest_of(weights: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits of SHA-256 over names, shapes and numbers of the weights."""
    found = hashlib.sha256()
    for name in sorted(weights):
        values = weights[name].detach().cpu().numpy()
        found.update(
            f"{name}{values.shape}".encode() + np.ascontiguousarray(values, dtype="<f4").tobytes()
        )
    return found.hexdigest()[:16]


def graph_of(atoms: "Atoms", config: GraphConfig) -> "Graphs":
    """Return the graph of a structure whose elements the config knows; bonds go from a neighbour to its atom."""
    import torch

    from bandgap.networks.megnet import Graphs

    pbc = tuple(bool(axis) for axis in atoms.pbc)
    cell = complete_cell(np.asarray(atoms.cell.array, dtype=np.float64), pbc)  # type: ignore[arg-type]
    i, j, vectors = close_vectors(
        np.asarray(atoms.positions, dtype=np.float64),
        cell=cell,
        pbc=pbc,  # type: ignore[arg-type]
        cutoff_angstrom=config.cutoff_angstrom,
    )
    lengths = np.linalg.norm(vectors, axis=1)
    neighbour, atom = np.concatenate([i, j]), np.concatenate([j, i])
    distances = np.concatenate([lengths, lengths])
    kept = _nearest(atom, distances, len(atoms), config.max_neighbours)
    kinds = [config.species.index(symbol) for symbol in atoms.symbols]
    return Graphs(
        torch.tensor(kinds),
        torch.from_numpy(np.stack([neighbour, atom])[:, kept].astype(np.int64)),
        torch.from_numpy(distances[kept].astype(np.float32)),
        torch.zeros(len(atoms), dtype=torch.int64),
    )


def _nearest(
    atom: NDArray[np.intp], distances: NDArray[np.float64], n_atoms: int, most: int
) -> NDArray[np.intp]:
    """Return which bonds (bond,) end at an atom as one of its nearest, in the order of atoms and distances."""
    order = np.lexsort((distances, atom))
    first = np.searchsorted(atom[order], np.arange(n_atoms))
    rank = np.arange(len(order)) - first[atom[order]]
    farthest = np.full(n_atoms, np.inf)
    last = rank == most - 1
    farthest[atom[order][last]] = distances[order][last]
    kept: NDArray[np.intp] = order[distances[order] <= farthest[atom[order]] + TIE_ANGSTROM]
    return kept


def readout(atoms: "Atoms", body: GraphBody) -> NDArray[np.float64]:
    """Return the readout (n_features,) of a structure."""
    import torch

    with torch.no_grad():
        found = _network(body)(graph_of(atoms, body.config))
    return np.asarray(found[0].numpy(), dtype=np.float64)


def check_body(body: GraphBody) -> None:
    """Raise ConfigError where torch_geometric is not installed, or the network came without its weights."""
    import bandgap.networks.megnet  # noqa: F401 - it says what is missing

    if not body.weights:
        raise ConfigError(
            "The descriptor is the readout of a graph network whose weights are not here. Take it from the folder of "
            "the source model or run (load_source, load_run), which holds them."
        )


@lru_cache(maxsize=4)
def _network(body: GraphBody) -> "Megnet":
    from bandgap.networks.megnet import megnet_of

    return megnet_of(body.config, dict(body.weights))


PART: Final = Part(
    "graph",
    width=lambda body: 0 if body is None else body.config.n_features,
    name=lambda body: f"readout of graph network {body.digest}",
    describe=readout,
    elements=lambda body: body.config.species,
    reach_angstrom=lambda body: body.config.cutoff_angstrom,
    alike=True,
    check=check_body,
)
