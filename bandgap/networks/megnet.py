"""MEGNet's graph blocks, from the atoms and distances of structures to one vector for each.

Reference: C. Chen et al., Graph networks as a universal machine learning framework for molecules and crystals, Chem.
Mater. 31, 3564 (2019), figures 1 and 2: every block renews the bonds, then the atoms, then the state of the whole, each
from its neighbours of the other kinds, and adds what is new to what was; atoms and bonds are then pooled by Set2Set
(Vinyals et al., 2016). What stands above it, a perceptron on the vector, is the source network's (Abba 2023, section
3.5). The layers are PyTorch Geometric's, which the extra `graph` installs.
"""

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from bandgap.foundation.errors import ConfigError
from bandgap.networks.graph_config import GraphConfig

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of torch_geometric, on what torch has deprecated
    try:
        from torch_geometric.nn import MetaLayer
        from torch_geometric.nn.aggr import Set2Set
        from torch_geometric.utils import scatter
    except ImportError:
        raise ConfigError(
            "A graph network needs the package torch_geometric, which is not installed. Install it by "
            "`pip install -c constraints.txt '.[graph]'` in the folder of bandgap's README."
        ) from None

GAUSSIAN_WIDTH: Final = 1.5  # standard deviation of a Gaussian, in distances between their centres


@dataclass(frozen=True, eq=False)
class Graphs:
    """Structures side by side: elements (atom,) by their place in the config, bonds (2, bond) from an atom to another.

    `distances` (bond,) are in angstroms, `owner` (atom,) says of which of the `n` structures an atom is.
    """

    kinds: Tensor
    bonds: Tensor
    distances: Tensor
    owner: Tensor
    n: int = 1

    @staticmethod
    def together(graphs: "Sequence[Graphs]") -> "Graphs":
        """Return the structures of several as one."""
        atoms, structures = [0], [0]
        for graph in graphs:
            atoms.append(atoms[-1] + graph.kinds.shape[0])
            structures.append(structures[-1] + graph.n)
        return Graphs(
            torch.cat([graph.kinds for graph in graphs]),
            torch.cat(
                [graph.bonds + first for graph, first in zip(graphs, atoms, strict=False)], 1
            ),
            torch.cat([graph.distances for graph in graphs]),
            torch.cat(
                [graph.owner + first for graph, first in zip(graphs, structures, strict=False)]
            ),
            structures[-1],
        )

    def to(self, device: torch.device) -> "Graphs":
        """Return the same on a device."""
        kinds, bonds, distances, owner = (
            value.to(device) for value in (self.kinds, self.bonds, self.distances, self.owner)
        )
        return Graphs(kinds, bonds, distances, owner, self.n)


class SoftPlus(nn.Module):
    """log(1 + exp(x)) - log 2, which is 0 at 0: the activation of the paper."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the activation, element by element."""
        return nn.functional.softplus(x) - math.log(2.0)


class Megnet(nn.Module):
    """The graph network: `Graphs` to vectors (structure, n_features)."""

    def __init__(self, config: GraphConfig) -> None:
        """Make a network with random weights, from torch's own generator: `new_megnet` seeds it."""
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
        of_bond = graphs.owner[graphs.bonds[0]]
        pooled_atoms = self.pool_atoms(atoms, graphs.owner, dim_size=graphs.n)
        pooled_bonds = self.pool_bonds(bonds, of_bond, dim_size=graphs.n)
        return torch.cat([pooled_atoms, pooled_bonds, state], 1)


class Block(nn.Module):
    """One block: dense layers (not in the first), then new bonds, atoms and state, added to the old ones."""

    def __init__(self, config: GraphConfig, *, first: bool) -> None:
        """Make a block with random weights."""
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
        """Make the layers."""
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
        """Make the layers."""
        super().__init__()
        self.layers = dense(3 * config.width, config.hidden, config.hidden, config.width)

    def forward(
        self, atoms: Tensor, ends: Tensor, bonds: Tensor, state: Tensor, owner: Tensor
    ) -> Tensor:
        """Return new atoms; `ends` (2, bond) are the atoms of each bond."""
        around = scatter(bonds, ends[1], dim=0, dim_size=atoms.shape[0], reduce="mean")
        result: Tensor = self.layers(torch.cat([atoms, around, state[owner]], 1))
        return result


class NewState(nn.Module):
    """The state of a structure from itself and the means of its atoms and of its bonds."""

    def __init__(self, config: GraphConfig) -> None:
        """Make the layers."""
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
    """Return a network with the weights that the seed draws; torch's own generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Megnet(config)


def megnet_of(config: GraphConfig, weights: dict[str, Any]) -> Megnet:
    """Return a network with these weights, for predictions."""
    with torch.random.fork_rng(devices=[]):
        network = Megnet(config)
    network.load_state_dict(weights)
    return network.eval()
