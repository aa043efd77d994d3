r"""A graph network that generates graphs edge by edge, for padded batches of graphs.

Every node v has an embedding h_v. With g = sum_v sigmoid(gate(h_v)) * proj(h_v), zero for a graph
without nodes, an edge is drawn as

    sender      softmax over logits f_s(h_v, g) of the nodes and f_sn(g) of a new node
    recipient   softmax over logits f_r(h_v, h_s, g) and f_rn(g, h_s), after a new sender is added

A new node starts as h = f_init(g). The recipient may be the sender. After every edge all nodes are
updated once: h_v <- GRU(m_v, h_v), where m_v is the sum of f_msg(h_v, h_u) over all edges between u
and v, in both directions and with multiplicity; a self-loop sends one message. With times, each
message has the weight f_time(1 / (1 + (t - t_e) / scale)), where t_e is the time of its edge and
scale the mean distance of the times of the graph, so that a linear change of the clock has no
effect.

The network does not know how many edges a graph will have, and cannot learn when to close a cycle.
With `remaining_edges`, log(1 + remaining edges) is appended to g.

References: E. A. Ott, Probabilistic Neural Networks (thesis, 2022), equations 5.1 to 5.6, where "p
proportional to f" is read as a softmax and the argument of f_time, which is not legible, as above;
Y. Li et al., Learning deep generative models of graphs (2018).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bandgap.foundation.config import Count, Settings
from bandgap.research.molecules.sequences import EdgeSequence

IMPOSSIBLE = -1e9  # logit of what cannot be drawn
Device = str | torch.device


@dataclass(frozen=True)
class EdgeNetworkConfig(Settings):
    """Sizes and variant of the network.

    Parameters
    ----------
    width
        Size of the embedding of a node; that of a graph is twice as large.
    hidden
        Units of the hidden layer of every function.
    uses_times
        Whether messages are weighted by the time since their edge. Times are never generated.
    remaining_edges
        Whether the number of edges that are still to come is an input.
    """

    width: Count = 16
    hidden: Count = 32
    uses_times: bool = False
    remaining_edges: bool = False


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Sequences of edges, padded to the longest: edges (B, T, 2), times (B, T), lengths (B,)."""

    edges: Tensor
    times: Tensor
    n_edges: Tensor


class Perceptron(nn.Module):
    """One hidden layer of rectified units on several inputs, which broadcast against each other."""

    def __init__(self, sizes: Sequence[int], hidden: int, n_outputs: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleList(
            nn.Linear(size, hidden, bias=position == 0) for position, size in enumerate(sizes)
        )
        self.output = nn.Linear(hidden, n_outputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return outputs (..., n_outputs) of inputs (..., size)."""
        total = self.inputs[0](inputs[0])
        for layer, values in zip(list(self.inputs)[1:], inputs[1:], strict=True):
            total = total + layer(values)
        outputs: Tensor = self.output(torch.relu(total))
        return outputs


class NodeUpdates(nn.Module):
    """Graph embedding, messages along edges, and the update of all nodes after an edge."""

    def __init__(self, width: int, hidden: int, *, label_size: int = 0) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 2 * width)
        self.projection = nn.Linear(width, 2 * width)
        self.receiver = nn.Linear(width, hidden)
        self.neighbour = nn.Linear(width, hidden, bias=False)
        self.label = nn.Linear(label_size, hidden, bias=False) if label_size else None
        self.message = nn.Linear(hidden, width)
        self.update = nn.GRUCell(width, width)

    def embed_graph(self, nodes: Tensor, n_nodes: Tensor) -> Tensor:
        """Return graph embeddings (B, 2 width) of nodes (B, K, width), of which the first exist."""
        gated = torch.sigmoid(self.gate(nodes)) * self.projection(nodes)
        embedded: Tensor = (gated * exists(nodes, n_nodes)[:, :, None]).sum(1)
        return embedded

    def forward(
        self,
        nodes: Tensor,
        n_nodes: Tensor,
        edges: Tensor,
        *,
        weights: Tensor,
        labels: Tensor | None = None,
    ) -> Tensor:
        """Return the updated nodes (B, K, width); nodes that do not exist stay.

        Parameters
        ----------
        nodes, n_nodes
            Embeddings (B, K, width), and numbers of nodes (B,).
        edges
            Senders and recipients of all edges so far, (B, t, 2).
        weights
            Weights of the messages along these edges, (B, t), 0 for padding.
        labels
            Embeddings of the edges (B, t, label_size), where the network has them.
        """
        n_graphs, n_slots, width = nodes.shape
        targets = torch.cat([edges[:, :, 0], edges[:, :, 1]], dim=1)  # (B, 2t)
        sources = torch.cat([edges[:, :, 1], edges[:, :, 0]], dim=1)
        is_loop = edges[:, :, 0] == edges[:, :, 1]
        weights = torch.cat([weights, weights.masked_fill(is_loop, 0.0)], dim=1)
        hidden_size = self.receiver.out_features

        def gathered(values: Tensor, index: Tensor) -> Tensor:
            return values.gather(1, index[:, :, None].expand(-1, -1, hidden_size))

        hidden = gathered(self.receiver(nodes), targets) + gathered(self.neighbour(nodes), sources)
        if self.label is not None and labels is not None:
            of_labels = self.label(labels)
            hidden = hidden + torch.cat([of_labels, of_labels], dim=1)
        hidden = torch.relu(hidden) * weights[:, :, None]
        # The output layer is linear: it is applied to sums, which is cheaper.
        shift = n_slots * torch.arange(n_graphs, device=nodes.device)[:, None]
        flat = (targets + shift).reshape(-1)
        sums = nodes.new_zeros(n_graphs * n_slots, hidden_size).index_add(
            0, flat, hidden.reshape(-1, hidden_size)
        )
        totals = nodes.new_zeros(n_graphs * n_slots).index_add(0, flat, weights.reshape(-1))
        messages = sums @ self.message.weight.T + totals[:, None] * self.message.bias
        updated = self.update(messages, nodes.reshape(-1, width)).view_as(nodes)
        return torch.where(exists(nodes, n_nodes)[:, :, None], updated, nodes)


class EdgeNetwork(nn.Module):
    """The network of the module's description."""

    def __init__(self, config: EdgeNetworkConfig) -> None:
        super().__init__()
        width, hidden = config.width, config.hidden
        graph = 2 * width + int(config.remaining_edges)
        self.config = config
        self.nodes = NodeUpdates(width, hidden)
        self.sender = Perceptron([width, graph], hidden, 1)
        self.new_sender = Perceptron([graph], hidden, 1)
        self.recipient = Perceptron([width, width, graph], hidden, 1)
        self.new_recipient = Perceptron([graph, width], hidden, 1)
        self.start = Perceptron([graph], hidden, width)
        self.time_weight = (
            nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1), nn.Softplus())
            if config.uses_times
            else None
        )


Choice = Callable[[int, int, Tensor], Tensor]
"""Chooses from log-probabilities (B, slots), given the step and 0 for sender or 1 for recipient."""


def exists(nodes: Tensor, n_nodes: Tensor) -> Tensor:
    """Return which of the slots of nodes (B, K, width) are nodes, (B, K)."""
    return torch.arange(nodes.shape[1], device=nodes.device) < n_nodes[:, None]


def with_slots(nodes: Tensor, n_slots: int) -> Tensor:
    """Return nodes (B, K, width) with at least `n_slots` slots, the new ones zero."""
    return nn.functional.pad(nodes, (0, 0, 0, max(0, n_slots - nodes.shape[1])))


def with_new_node(nodes: Tensor, n_nodes: Tensor, start: Tensor, is_new: Tensor) -> Tensor:
    """Return nodes (B, K, width) with `start` (B, width) in the next slot where `is_new` (B,)."""
    slots = torch.arange(nodes.shape[1], device=nodes.device)
    is_next = (slots == n_nodes[:, None]) & is_new[:, None]
    return torch.where(is_next[:, :, None], start[:, None, :], nodes)


def slot_logits(old: Tensor, new: Tensor, n_nodes: Tensor) -> Tensor:
    """Return logits (B, K) in which the next free slot is that of a new node.

    `old` (B, K) has the logits of nodes, `new` (B,) that of a new node; K exceeds every n_nodes.
    """
    slots = torch.arange(old.shape[1], device=old.device)
    logits = torch.where(slots < n_nodes[:, None], old, old.new_full((), IMPOSSIBLE))
    return torch.where(slots == n_nodes[:, None], new[:, None], logits)


def rows_of(nodes: Tensor, index: Tensor) -> Tensor:
    """Return the embeddings (B, width) of one node of every graph, index (B,)."""
    return nodes.gather(1, index[:, None, None].expand(-1, 1, nodes.shape[2])).squeeze(1)


def batch_of(
    graphs: Sequence[EdgeSequence], *, dtype: torch.dtype = torch.float32, device: Device = "cpu"
) -> GraphBatch:
    """Return a padded batch of graphs."""
    longest = max(len(graph) for graph in graphs)
    edges = torch.zeros(len(graphs), longest, 2, dtype=torch.long)
    times = torch.zeros(len(graphs), longest, dtype=torch.float64)
    for row, graph in enumerate(graphs):
        edges[row, : len(graph)] = torch.as_tensor(graph.edges)
        times[row, : len(graph)] = torch.as_tensor(graph.times)
    n_edges = torch.tensor([len(graph) for graph in graphs])
    return GraphBatch(edges.to(device), times.to(device, dtype), n_edges.to(device))


def walk(
    network: EdgeNetwork, times: Tensor, n_edges: Tensor, choose: Choice
) -> tuple[Tensor, Tensor]:
    """Return log-likelihoods (B,) in nats and edges (B, T, 2) of graphs that `choose` builds.

    Parameters
    ----------
    network
        The network.
    times
        Times of the edges, (B, T).
    n_edges
        Number of edges of every graph, (B,). After its last edge, a graph stays as it is.
    choose
        Teacher forcing returns the true nodes, generation random ones.
    """
    n_graphs, n_steps = times.shape
    parameter = network.start.output.weight
    n_nodes = torch.zeros_like(n_edges)
    nodes = parameter.new_zeros(n_graphs, 1, network.config.width)
    # Sums of single-precision numbers would lose 1e-5 nats in graphs of a hundred nats.
    total = parameter.new_zeros(n_graphs, dtype=torch.float64)
    scale = _time_scale(times, n_edges)
    edges: list[Tensor] = []
    for step in range(n_steps):
        is_active = step < n_edges
        remaining = torch.clamp(n_edges - step, min=0)
        nodes = with_slots(nodes, int(n_nodes.max()) + 1)
        graph = _graph(network, nodes, n_nodes, remaining)
        logits = slot_logits(
            network.sender(nodes, graph[:, None]).squeeze(2),
            network.new_sender(graph).squeeze(1),
            n_nodes,
        )
        sender, log_p = _chosen_slot(choose, step, 0, logits)
        total = total + torch.where(is_active, log_p, 0.0)
        is_new = is_active & (sender == n_nodes)
        nodes = with_new_node(nodes, n_nodes, network.start(graph), is_new)
        n_nodes = n_nodes + is_new

        nodes = with_slots(nodes, int(n_nodes.max()) + 1)
        graph = _graph(network, nodes, n_nodes, remaining)
        of_sender = rows_of(nodes, sender)
        logits = slot_logits(
            network.recipient(nodes, of_sender[:, None], graph[:, None]).squeeze(2),
            network.new_recipient(graph, of_sender).squeeze(1),
            n_nodes,
        )
        recipient, log_p = _chosen_slot(choose, step, 1, logits)
        total = total + torch.where(is_active, log_p, 0.0)
        is_new = is_active & (recipient == n_nodes)
        nodes = with_new_node(nodes, n_nodes, network.start(graph), is_new)
        n_nodes = n_nodes + is_new

        # Messages of a finished graph are not used.
        edge = torch.stack([sender, recipient], dim=1)
        edges.append(torch.where(is_active[:, None], edge, 0))
        so_far = torch.stack(edges, dim=1)
        weights = _message_weights(network, times[:, : step + 1], scale)
        updated = network.nodes(nodes, n_nodes, so_far, weights=weights)
        nodes = torch.where(is_active[:, None, None], updated, nodes)
    return total, torch.stack(edges, dim=1)


def log_likelihood(network: EdgeNetwork, batch: GraphBatch) -> Tensor:
    """Return the log-likelihood (B,) in nats of the edges of every graph, in their order."""

    def choose(step: int, end: int, log_probabilities: Tensor) -> Tensor:
        return batch.edges[:, step, end]

    return walk(network, batch.times, batch.n_edges, choose)[0]


@torch.no_grad()
def generate(
    network: EdgeNetwork, models: Sequence[EdgeSequence], generator: torch.Generator
) -> list[EdgeSequence]:
    """Return a random graph for each of `models`, with the same number of edges and times."""
    parameter = network.start.output.weight
    batch = batch_of(models, dtype=parameter.dtype, device=parameter.device)

    def choose(step: int, end: int, log_probabilities: Tensor) -> Tensor:
        return drawn(log_probabilities, generator)

    _, edges = walk(network, batch.times, batch.n_edges, choose)
    return [
        EdgeSequence(edges[row, : len(model)].cpu().numpy(), model.times)
        for row, model in enumerate(models)
    ]


def drawn(log_probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """Return a random index (B,) for every row of log-probabilities (B, n).

    The generator is on the CPU, so that a seed gives the same draws on every device.
    """
    probabilities = log_probabilities.exp().cpu().double()
    indices = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
    return indices.to(log_probabilities.device)


def _graph(network: EdgeNetwork, nodes: Tensor, n_nodes: Tensor, remaining: Tensor) -> Tensor:
    graph = network.nodes.embed_graph(nodes, n_nodes)
    if not network.config.remaining_edges:
        return graph
    return torch.cat([graph, torch.log1p(remaining.to(graph.dtype))[:, None]], dim=1)


def _chosen_slot(choose: Choice, step: int, end: int, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the chosen slot and its log-probability, (B,) each."""
    log_probabilities = torch.log_softmax(logits, dim=1)
    slot = choose(step, end, log_probabilities)
    # A padded edge may name a slot that does not exist yet; its log-probability is not used.
    slot = torch.clamp(slot, max=logits.shape[1] - 1)
    return slot, log_probabilities.gather(1, slot[:, None]).squeeze(1)


def _time_scale(times: Tensor, n_edges: Tensor) -> Tensor:
    """Return the mean distance of the times of every graph, (B,), 1 where it is 0."""
    last = times.gather(1, (n_edges - 1).clamp(min=0)[:, None]).squeeze(1)
    mean = (last - times[:, 0]) / (n_edges - 1).clamp(min=1)
    return torch.where(mean > 0, mean, torch.ones_like(mean))


def _message_weights(network: EdgeNetwork, times: Tensor, scale: Tensor) -> Tensor:
    """Return the weights of the messages of all edges so far, (B, t), at the time of the last."""
    if network.time_weight is None:
        return torch.ones_like(times)
    # Padding of a finished graph has a time of 0, before its edges; its weights are not used.
    elapsed = (times[:, -1:] - times).clamp(min=0.0) / scale[:, None]
    weights: Tensor = network.time_weight((1.0 / (1.0 + elapsed))[:, :, None]).squeeze(2)
    return weights
