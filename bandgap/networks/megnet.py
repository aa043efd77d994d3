"""The graph blocks of MEGNet: from the atoms and distances of structures to one vector for each.

Every block updates the bonds, then the atoms, then the state of the structure. Each is computed
from the others, and the result is added to the old value. Atoms and bonds are then pooled by
Set2Set (Vinyals et al., 2016). The perceptron on top of the vector is the source network (Abba
2023, section 3.5). The layers are those of PyTorch Geometric, which the extra `graph` installs.

Reference: C. Chen et al., Graph networks as a universal machine learning framework for molecules
and crystals, Chem. Mater. 31, 3564 (2019), figures 1 and 2.
"""

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from bandgap.foundation.extras import not_installed
from bandgap.networks.graph_config import GraphConfig

with warnings.catch_warnings():
    # Of functions of torch that torch_geometric uses and torch has deprecated.
    warnings.simplefilter("ignore")
    try:
        from torch_geometric.nn import MetaLayer
        from torch_geometric.nn.aggr import Set2Set
        from torch_geometric.utils import scatter
    except ImportError:
        raise not_installed("A graph network", "torch_geometric", extra="graph") from None

# Standard deviation of a Gaussian, in units of the distance between two centres.
GAUSSIAN_WIDTH: Final = 1.5


@dataclass(frozen=True, eq=False)
class Graphs:
    """Graphs of structures.

    Parameters
    ----------
    kinds
        Index of the element of each atom in the config (atom,).
    bonds
        Neighbour and atom of each bond (2, bond).
    distances
        Length of each bond in angstrom (bond,).
    owner
        Index of the structure of each atom (atom,).
    n
        Number of structures.
    """

    kinds: Tensor
    bonds: Tensor
    distances: Tensor
    owner: Tensor
    n: int = 1

    @staticmethod
    def joined(graphs: "Sequence[Graphs]") -> "Graphs":
        """Return the structures of several as one."""
        first_atom = [0]
        first_structure = [0]
        for graph in graphs:
            first_atom.append(first_atom[-1] + graph.kinds.shape[0])
            first_structure.append(first_structure[-1] + graph.n)
        bonds = [graph.bonds + first for graph, first in zip(graphs, first_atom, strict=False)]
        owners = [
            graph.owner + first for graph, first in zip(graphs, first_structure, strict=False)
        ]
        return Graphs(
            torch.cat([graph.kinds for graph in graphs]),
            torch.cat(bonds, 1),
            torch.cat([graph.distances for graph in graphs]),
            torch.cat(owners),
            first_structure[-1],
        )

    def to(self, device: torch.device) -> "Graphs":
        """Return the graphs on a device."""
        kinds, bonds, distances, owner = (
            value.to(device) for value in (self.kinds, self.bonds, self.distances, self.owner)
        )
        return Graphs(kinds, bonds, distances, owner, self.n)


class SoftPlus(nn.Module):
    """The activation of the paper: log(1 + exp(x)) - log 2, which is 0 at 0."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation, element by element."""
        return nn.functional.softplus(x) - math.log(2.0)


class Megnet(nn.Module):
    """The graph network: `Graphs` to vectors (structure, n_features)."""

    def __init__(self, config: GraphConfig) -> None:
        """Create a network with random weights from torch's generator (`new_megnet` seeds it)."""
        super().__init__()
        width = config.width
        self.config = config
        self.embedding = nn.Embedding(len(config.species), config.embedding)
        self.atoms = dense(config.embedding, config.hidden, width)
        self.bonds = dense(config.centres, config.hidden, width)
        self.state = dense(1, config.hidden, width)
        self.blocks = nn.ModuleList(Block(config, first=k == 0) for k in range(config.blocks))
        self.pool_atoms = Set2Set(width, config.steps)
        self.pool_bonds = Set2Set(width, config.steps)

    def forward(self, graphs: Graphs) -> Tensor:
        """Return the readout (structure, n_features): pooled atoms, pooled bonds, state."""
        atoms = self.atoms(self.embedding(graphs.kinds))
        bonds = self.bonds(gaussians(graphs.distances, self.config))
        state = self.state(graphs.distances.new_zeros(graphs.n, 1))
        for block in self.blocks:
            atoms, bonds, state = block(atoms, bonds, state, graphs)
        owner_of_bond = graphs.owner[graphs.bonds[0]]
        pooled_atoms = self.pool_atoms(atoms, graphs.owner, dim_size=graphs.n)
        pooled_bonds = self.pool_bonds(bonds, owner_of_bond, dim_size=graphs.n)
        return torch.cat([pooled_atoms, pooled_bonds, state], 1)


class Block(nn.Module):
    """One block: dense layers (not in the first), then the updates of bonds, atoms and state."""

    def __init__(self, config: GraphConfig, *, first: bool) -> None:
        """Create a block with random weights."""
        super().__init__()
        sizes = (config.width, config.hidden, config.width)
        self.before = nn.ModuleList(nn.Identity() if first else dense(*sizes) for _ in range(3))
        self.layer = MetaLayer(NewBonds(config), NewAtoms(config), NewState(config))

    def forward(
        self, atoms: Tensor, bonds: Tensor, state: Tensor, graphs: Graphs
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return atoms (atom, width), bonds (bond, width) and state (structure, width)."""
        old = (atoms, bonds, state)
        a, b, s = (before(value) for before, value in zip(self.before, old, strict=True))
        new_atoms, new_bonds, new_state = self.layer(a, graphs.bonds, b, s, graphs.owner)
        return atoms + new_atoms, bonds + new_bonds, state + new_state


class NewBonds(nn.Module):
    """A bond from its two atoms, itself and the state."""

    def __init__(self, config: GraphConfig) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = dense(4 * config.width, config.hidden, config.hidden, config.width)

    def forward(
        self, source: Tensor, end: Tensor, bonds: Tensor, state: Tensor, owner: Tensor
    ) -> Tensor:
        """Return new bonds; `owner` (bond,) is the structure of each."""
        return self._result(torch.cat([source, end, bonds, state[owner]], 1))

    def _result(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class NewAtoms(nn.Module):
    """An atom from itself, the mean of the bonds that end at it, and the state."""

    def __init__(self, config: GraphConfig) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = dense(3 * config.width, config.hidden, config.hidden, config.width)

    def forward(
        self, atoms: Tensor, ends: Tensor, bonds: Tensor, state: Tensor, owner: Tensor
    ) -> Tensor:
        """Return new atoms; `ends` (2, bond) are the atoms of each bond."""
        mean_bond = scatter(bonds, ends[1], dim=0, dim_size=atoms.shape[0], reduce="mean")
        result: Tensor = self.layers(torch.cat([atoms, mean_bond, state[owner]], 1))
        return result


class NewState(nn.Module):
    """The state of a structure from itself and the means of its atoms and of its bonds."""

    def __init__(self, config: GraphConfig) -> None:
        """Create the layers."""
        super().__init__()
        self.layers = dense(3 * config.width, config.hidden, config.hidden, config.width)

    def forward(
        self, atoms: Tensor, ends: Tensor, bonds: Tensor, state: Tensor, owner: Tensor
    ) -> Tensor:
        """Return the new state."""
        n = state.shape[0]
        mean_atom = scatter(atoms, owner, dim=0, dim_size=n, reduce="mean")
        mean_bond = scatter(bonds, owner[ends[0]], dim=0, dim_size=n, reduce="mean")
        result: Tensor = self.layers(torch.cat([state, mean_atom, mean_bond], 1))
        return result


def dense(*widths: int) -> nn.Sequential:
    """Return linear layers of these widths with the activation after each."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), SoftPlus()]
    return nn.Sequential(*layers)


def gaussians(distances: Tensor, config: GraphConfig) -> Tensor:
    """Return the distances (bond,) as values of Gaussians (bond, centres) from 0 to the cutoff."""
    centres = torch.linspace(0.0, config.cutoff_angstrom, config.centres, device=distances.device)
    width = GAUSSIAN_WIDTH * config.cutoff_angstrom / (config.centres - 1)
    return torch.exp(-0.5 * ((distances[:, None] - centres) / width) ** 2)


def new_megnet(config: GraphConfig, *, seed: int) -> Megnet:
    """Return a network with random weights from a seed; torch's own generator is not changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Megnet(config)


def megnet_of(config: GraphConfig, weights: dict[str, Any]) -> Megnet:
    """Return a network with these weights, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        network = Megnet(config)
    network.load_state_dict(weights)
    return network.eval()
