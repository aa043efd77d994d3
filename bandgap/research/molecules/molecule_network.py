r"""The edge-by-edge network for molecules: atom and bond labels, valence masks, explicit stop.

Extends `edge_network`; none of this is in the thesis. Before every bond but the first, the network
stops or continues. Each new atom has a label drawn from those of the training set, and each bond an
order of 1 to 3. Bonds come in breadth-first order. Masked are:

    sender      atoms before the last sender, and atoms without a free valence
    recipient   the sender, atoms before it, its neighbours, and atoms without a free valence
    order       more than the free valence of either atom
    stop        while the molecule has a net charge and can grow

None of the bonds of a training molecule is masked, and every sample is one connected molecule whose
free valences are filled with hydrogens. Logits of atoms also see the free valence of the atom, its
number relative to the last sender and, for recipients, the number of bonds between it and the
sender, which is the size of the ring that would be closed, less one. The graph embedding has the
number of atoms and the net charge.

The likelihood is that of one order of the bonds, not of the molecule: it ranks nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor, nn

from bandgap.foundation.config import AtLeastTwo, Count, Settings
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.proposals.molecules import HIGHEST_ORDER, AtomLabel
from bandgap.research.molecules.edge_network import (
    IMPOSSIBLE,
    Device,
    NodeUpdates,
    Perceptron,
    drawn,
    exists,
    rows_of,
    slot_logits,
    with_new_node,
    with_slots,
)
from bandgap.research.molecules.walks import MoleculeWalk

Decision = Literal["stop", "first", "sender", "recipient", "label", "order"]
Choice = Callable[[Decision, int, Tensor], Tensor]
"""Chooses an index (B,) from log-probabilities (B, n), given the decision and the step."""

N_DISTANCES: Final = 10  # numbers of bonds that are told apart; the last means as many or more
_LABEL_SIZE: Final = 16
_ORDER_SIZE: Final = 8
_ATOM_FEATURES: Final = 3  # free valence, number relative to the last sender, whether it is that
_FAR: Final = 99


@dataclass(frozen=True)
class MoleculeNetworkConfig(Settings):
    """Sizes of the network, and the largest molecule in heavy atoms; larger samples are dropped."""

    n_labels: Count
    width: Count = 48
    hidden: Count = 96
    max_atoms: AtLeastTwo = 30


@dataclass(frozen=True, eq=False)
class WalkBatch:
    """Padded walks: labels (B, K), edges (B, T, 2), orders (B, T), and numbers of bonds (B,)."""

    labels: Tensor
    edges: Tensor
    orders: Tensor
    n_edges: Tensor


class MoleculeNetwork(nn.Module):
    """The network of the module's description, for these atom labels."""

    valences: Tensor
    charges: Tensor

    def __init__(self, config: MoleculeNetworkConfig, labels: Sequence[AtomLabel]) -> None:
        super().__init__()
        valences = [label.valence for label in labels]
        if len(labels) != config.n_labels or min(valences) < 1:
            raise ConfigError(
                f"{len(labels)} labels of valences {valences}. Accepted: {config.n_labels} labels "
                "of a valence from 1."
            )
        width, hidden = config.width, config.hidden
        graph = 2 * width + 2  # and the number of atoms, and the charge
        self.config = config
        charges = torch.tensor([label.charge for label in labels])
        self.register_buffer("valences", torch.tensor(valences), persistent=False)
        self.register_buffer("charges", charges, persistent=False)
        self.nodes = NodeUpdates(width, hidden, label_size=_ORDER_SIZE)
        self.label_embedding = nn.Embedding(config.n_labels, _LABEL_SIZE)
        self.order_embedding = nn.Embedding(HIGHEST_ORDER + 1, _ORDER_SIZE)
        self.stop = Perceptron([graph, width], hidden, 2)
        self.sender = Perceptron([width, _ATOM_FEATURES, graph], hidden, 1)
        self.recipient = Perceptron([width, _ATOM_FEATURES, N_DISTANCES, width, graph], hidden, 1)
        self.new_recipient = Perceptron([graph, width], hidden, 1)
        self.label = Perceptron([graph, width], hidden, config.n_labels)
        self.start = Perceptron([graph, width, _LABEL_SIZE], hidden, width)
        self.order = Perceptron([width, width, 3 + N_DISTANCES, graph], hidden, HIGHEST_ORDER)


@dataclass
class _Molecules:
    """State of a batch of molecules that are being built."""

    nodes: Tensor  # (B, K, width)
    n_nodes: Tensor  # (B,)
    free: Tensor  # free valences, (B, K)
    distances: Tensor  # numbers of bonds between atoms, (B, K, K)
    labels: Tensor  # (B, K)
    charge: Tensor  # (B,)
    last_sender: Tensor  # (B,)

    def grow(self) -> None:
        """Make room for one more atom in every molecule."""
        n_more = int(self.n_nodes.max()) + 1 - self.nodes.shape[1]
        if n_more <= 0:
            return
        self.nodes = with_slots(self.nodes, self.nodes.shape[1] + n_more)
        pad = nn.functional.pad
        self.free = pad(self.free, (0, n_more))
        self.labels = pad(self.labels, (0, n_more))
        self.distances = pad(self.distances, (0, n_more, 0, n_more), value=_FAR)

    def add(self, network: MoleculeNetwork, start: Tensor, labels: Tensor, is_new: Tensor) -> None:
        """Add an atom with these labels (B,) where `is_new` (B,)."""
        self.nodes = with_new_node(self.nodes, self.n_nodes, start, is_new)
        slots = torch.arange(self.free.shape[1], device=self.free.device)
        is_slot = (slots == self.n_nodes[:, None]) & is_new[:, None]
        self.free = torch.where(is_slot, network.valences[labels][:, None], self.free)
        self.labels = torch.where(is_slot, labels[:, None], self.labels)
        self.distances = torch.where(is_slot[:, :, None] & is_slot[:, None, :], 0, self.distances)
        self.charge = self.charge + torch.where(is_new, network.charges[labels], 0)
        self.n_nodes = self.n_nodes + is_new

    def join(self, sender: Tensor, recipient: Tensor, order: Tensor, is_active: Tensor) -> None:
        """Use up valences and shorten distances by a new bond where `is_active` (B,)."""
        used = torch.where(is_active, order, 0)
        rows = torch.arange(len(sender), device=sender.device)
        self.free = self.free.index_put((rows, sender), -used, accumulate=True)
        self.free = self.free.index_put((rows, recipient), -used, accumulate=True)
        of_sender = self.distances[rows, sender]
        of_recipient = self.distances[rows, recipient]
        through = of_sender[:, :, None] + 1 + of_recipient[:, None, :]
        through = torch.minimum(through, through.transpose(1, 2))
        shorter = torch.minimum(self.distances, through)
        self.distances = torch.where(is_active[:, None, None], shorter, self.distances)
        self.last_sender = torch.where(is_active, sender, self.last_sender)

    def atom_features(self, dtype: torch.dtype) -> Tensor:
        """Return the inputs (B, K, 3) of every atom beyond its embedding."""
        slots = torch.arange(self.free.shape[1], device=self.free.device)
        offset = slots - self.last_sender[:, None]
        return torch.stack(
            [self.free.to(dtype) / 4, offset.to(dtype) / 10, (offset == 0).to(dtype)], dim=2
        )


def batch_of_walks(walks: Sequence[MoleculeWalk], *, device: Device = "cpu") -> WalkBatch:
    """Return a padded batch of walks."""
    n_atoms = max(len(walk.labels) for walk in walks)
    longest = max(len(walk.edges) for walk in walks)
    labels = torch.zeros(len(walks), n_atoms, dtype=torch.long)
    edges = torch.zeros(len(walks), longest, 2, dtype=torch.long)
    orders = torch.ones(len(walks), longest, dtype=torch.long)
    for row, walk in enumerate(walks):
        labels[row, : len(walk.labels)] = torch.as_tensor(walk.labels)
        edges[row, : len(walk.edges)] = torch.as_tensor(walk.edges)
        orders[row, : len(walk.orders)] = torch.as_tensor(walk.orders)
    n_edges = torch.tensor([len(walk.edges) for walk in walks])
    return WalkBatch(*(value.to(device) for value in (labels, edges, orders, n_edges)))


def walk_molecules(
    network: MoleculeNetwork, n_molecules: int, n_steps: int, choose: Choice
) -> tuple[Tensor, list[MoleculeWalk]]:
    """Return log-likelihoods (B,) in nats and walks of molecules that `choose` builds.

    Parameters
    ----------
    network
        The network.
    n_molecules, n_steps
        Number of molecules B, and most bonds; a molecule that has not stopped by then is returned
        as it is.
    choose
        Teacher forcing returns the true indices, generation random ones.
    """
    parameter = network.start.output.weight
    device = parameter.device
    zeros = torch.zeros(n_molecules, dtype=torch.long, device=device)
    state = _Molecules(
        parameter.new_zeros(n_molecules, 1, network.config.width),
        zeros,
        zeros[:, None],
        torch.full((n_molecules, 1, 1), _FAR, device=device),
        zeros[:, None],
        zeros,
        zeros,
    )
    no_atom = parameter.new_zeros(n_molecules, network.config.width)
    is_active = torch.ones(n_molecules, dtype=torch.bool, device=device)
    total = parameter.new_zeros(n_molecules)

    def decide(decision: Decision, step: int, logits: Tensor, counts: Tensor) -> Tensor:
        nonlocal total
        log_probabilities = torch.log_softmax(logits, dim=1)
        index = choose(decision, step, log_probabilities).clamp(max=logits.shape[1] - 1)
        log_p = log_probabilities.gather(1, index[:, None]).squeeze(1)
        total = total + torch.where(counts, log_p, 0.0)
        return index

    # The first atom; every molecule has a bond, so that no stop is drawn before the first one.
    graph = _graph(network, state)
    everywhere = torch.ones_like(is_active)
    labels = decide("first", 0, network.label(graph, no_atom), everywhere)
    start = network.start(graph, no_atom, network.label_embedding(labels))
    state.add(network, start, labels, everywhere)
    edges: list[Tensor] = []
    orders: list[Tensor] = []
    n_edges = zeros
    for step in range(n_steps + 1):
        state.grow()
        graph = _graph(network, state)
        may_send = _may_send(state)
        if step > 0:
            must_stop = ~may_send.any(dim=1) | (state.n_nodes > network.config.max_atoms)
            logits = network.stop(graph, rows_of(state.nodes, state.last_sender))
            is_charged = (state.charge != 0) & ~must_stop
            logits = logits.masked_fill(torch.stack([must_stop, is_charged], 1), IMPOSSIBLE)
            stops = decide("stop", step, logits, is_active)
            is_active = is_active & (stops == 0)
            if step == n_steps or not is_active.any():
                break
        features = state.atom_features(parameter.dtype)
        logits = network.sender(state.nodes, features, graph[:, None]).squeeze(2)
        sender = decide("sender", step, logits.masked_fill(~may_send, IMPOSSIBLE), is_active)
        recipient, distances = _recipient(network, state, graph, sender, step, is_active, decide)
        is_new = is_active & (recipient == state.n_nodes)
        of_sender = rows_of(state.nodes, sender)
        labels = decide("label", step, network.label(graph, of_sender), is_new)
        start = network.start(graph, of_sender, network.label_embedding(labels))
        state.add(network, start, labels, is_new)
        order = 1 + _order(
            network, state, graph, sender, recipient, distances, step, is_active, decide
        )
        state.join(sender, recipient, order, is_active)
        edges.append(torch.where(is_active[:, None], torch.stack([sender, recipient], 1), 0))
        orders.append(torch.where(is_active, order, 0))
        n_edges = n_edges + is_active
        weights = (torch.stack(orders, dim=1) > 0).to(parameter.dtype)
        updated = network.nodes(
            state.nodes,
            state.n_nodes,
            torch.stack(edges, dim=1),
            weights=weights,
            labels=network.order_embedding(torch.stack(orders, dim=1)),
        )
        state.nodes = torch.where(is_active[:, None, None], updated, state.nodes)
    return total, _walks(state, edges, orders, n_edges)


def log_likelihood(network: MoleculeNetwork, batch: WalkBatch) -> Tensor:
    """Return the log-likelihood (B,) in nats of walks.

    Raises InputError where a bond of a walk is masked, which no training molecule has.
    """

    def choose(decision: Decision, step: int, log_probabilities: Tensor) -> Tensor:
        column = min(step, batch.edges.shape[1] - 1)
        if decision == "stop":
            return (step >= batch.n_edges).long()
        if decision == "first":
            return batch.labels[:, 0]
        if decision == "sender":
            return batch.edges[:, column, 0]
        if decision == "recipient":
            return batch.edges[:, column, 1]
        if decision == "order":
            return batch.orders[:, column] - 1
        return batch.labels.gather(1, batch.edges[:, column, 1][:, None]).squeeze(1)

    n_molecules, n_steps = batch.orders.shape
    total, _ = walk_molecules(network, n_molecules, n_steps, choose)
    if bool((total.detach() < IMPOSSIBLE / 2).any()):
        row = int(total.detach().argmin())
        raise InputError(f"walk {row} of the batch has a bond that the valence masks forbid.")
    return total


@torch.no_grad()
def sample_walks(
    network: MoleculeNetwork, count: int, generator: torch.Generator
) -> list[MoleculeWalk]:
    """Return random walks; some may have more than the largest number of atoms."""

    def choose(decision: Decision, step: int, log_probabilities: Tensor) -> Tensor:
        return drawn(log_probabilities, generator)

    # A tree of n atoms has n - 1 bonds; organic molecules have few rings more.
    n_steps = 2 * network.config.max_atoms
    return walk_molecules(network, count, n_steps, choose)[1]


Decide = Callable[[Decision, int, Tensor, Tensor], Tensor]


def _graph(network: MoleculeNetwork, state: _Molecules) -> Tensor:
    embedded = network.nodes.embed_graph(state.nodes, state.n_nodes)
    scalars = torch.stack([state.n_nodes / 10, state.charge], dim=1).to(embedded.dtype)
    return torch.cat([embedded, scalars], dim=1)


def _may_send(state: _Molecules) -> Tensor:
    slots = torch.arange(state.free.shape[1], device=state.free.device)
    is_later = slots >= state.last_sender[:, None]
    return exists(state.nodes, state.n_nodes) & (state.free > 0) & is_later


def _one_hot_distance(distances: Tensor, dtype: torch.dtype) -> Tensor:
    return nn.functional.one_hot(distances.clamp(max=N_DISTANCES - 1), N_DISTANCES).to(dtype)


def _recipient(
    network: MoleculeNetwork,
    state: _Molecules,
    graph: Tensor,
    sender: Tensor,
    step: int,
    is_active: Tensor,
    decide: Decide,
) -> tuple[Tensor, Tensor]:
    """Return the recipient (B,) and one-hot distances of all atoms from the sender, (B, K, 10)."""
    rows = torch.arange(len(sender), device=sender.device)
    of_sender = rows_of(state.nodes, sender)
    distances = state.distances[rows, sender]
    slots = torch.arange(state.free.shape[1], device=sender.device)
    is_allowed = (slots > sender[:, None]) & (state.free > 0) & (distances > 1)
    one_hot = _one_hot_distance(distances, graph.dtype)
    features = state.atom_features(graph.dtype)
    old = network.recipient(
        state.nodes, features, one_hot, of_sender[:, None], graph[:, None]
    ).squeeze(2)
    new = network.new_recipient(graph, of_sender).squeeze(1)
    logits = slot_logits(old.masked_fill(~is_allowed, IMPOSSIBLE), new, state.n_nodes)
    return decide("recipient", step, logits, is_active), one_hot


def _order(
    network: MoleculeNetwork,
    state: _Molecules,
    graph: Tensor,
    sender: Tensor,
    recipient: Tensor,
    distances: Tensor,
    step: int,
    is_active: Tensor,
    decide: Decide,
) -> Tensor:
    """Return the order of the new bond less one, (B,)."""
    rows = torch.arange(len(sender), device=sender.device)
    free_of_sender = state.free[rows, sender]
    free_of_recipient = state.free[rows, recipient]
    features = torch.cat(
        [
            torch.stack([free_of_sender, free_of_recipient], dim=1).to(graph.dtype) / 4,
            (recipient == state.n_nodes - 1)[:, None].to(graph.dtype),
            rows_of(distances, recipient),
        ],
        dim=1,
    )
    logits = network.order(
        rows_of(state.nodes, sender), rows_of(state.nodes, recipient), features, graph
    )
    highest = torch.minimum(free_of_sender, free_of_recipient)
    orders = torch.arange(1, HIGHEST_ORDER + 1, device=sender.device)
    # Order 1 stays for molecules that have stopped, whose logits are not used.
    is_masked = (orders > highest[:, None]) & (orders > 1)
    return decide("order", step, logits.masked_fill(is_masked, IMPOSSIBLE), is_active)


def _walks(
    state: _Molecules, edges: list[Tensor], orders: list[Tensor], n_edges: Tensor
) -> list[MoleculeWalk]:
    labels = state.labels.cpu().numpy()
    all_edges = torch.stack(edges, dim=1).cpu().numpy()
    all_orders = torch.stack(orders, dim=1).cpu().numpy()
    return [
        MoleculeWalk(
            labels[row, :n_atoms].astype(np.int64),
            all_edges[row, :n_bonds].astype(np.int64),
            all_orders[row, :n_bonds].astype(np.int64),
        )
        for row, (n_atoms, n_bonds) in enumerate(
            zip(state.n_nodes.tolist(), n_edges.tolist(), strict=True)
        )
    ]
