"""Training of the edge-by-edge network by teacher forcing, with early stopping.

Adam with a cosine schedule and clipped gradients ascends the mean log-likelihood of the graphs
(algorithm 4 of the thesis, where the gradient step of the update line is meant).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bandgap.foundation.config import Count, Positive, Settings
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.molecules.edge_network import (
    Device,
    EdgeNetwork,
    EdgeNetworkConfig,
    batch_of,
    log_likelihood,
)
from bandgap.research.molecules.sequences import EdgeSequence

GRADIENT_NORM = 1.0  # largest norm of a gradient

Reorder = Callable[[EdgeSequence, np.random.Generator], EdgeSequence]


@dataclass(frozen=True)
class EdgeTraining(Settings):
    """Settings of the training.

    Parameters
    ----------
    n_steps
        Most updates of the parameters.
    batch_size
        Graphs of an update.
    learning_rate
        At the start; it falls to zero as a cosine.
    patience
        Passes through the graphs without a gain of the validation log-likelihood, after which the
        training ends. The best parameters are kept. It needs validation graphs.
    """

    n_steps: Count = 1_000
    batch_size: Count = 32
    learning_rate: Positive = 3e-3
    patience: Count = 30


def new_network(
    config: EdgeNetworkConfig,
    *,
    seed: int,
    dtype: torch.dtype = torch.float32,
    device: Device = "cpu",
) -> EdgeNetwork:
    """Return a network with random parameters; the global generator is not changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = EdgeNetwork(config)
    return network.to(device, dtype)


def train_edge_network(
    network: EdgeNetwork,
    graphs: Sequence[EdgeSequence],
    training: EdgeTraining,
    *,
    validation: Sequence[EdgeSequence] = (),
    reorder: Reorder | None = None,
    seed: int,
    progress: Progress = no_progress,
) -> list[float]:
    """Train a network and return the mean negative log-likelihood of every batch in nats per graph.

    Parameters
    ----------
    network
        Changed in place.
    graphs, validation
        Graphs to learn from, and for early stopping; without the latter, all steps are made.
    reorder
        Returns a graph with its edges in a new random order; applied whenever a graph is used.
    seed
        Seed of the order of the graphs.
    progress
        Called after every pass through the graphs; may raise `Cancelled`.
    """
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=training.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.n_steps)
    losses: list[float] = []
    best_value = -math.inf
    best_state = {name: value.clone() for name, value in network.state_dict().items()}
    n_without_gain = 0
    while len(losses) < training.n_steps and n_without_gain < training.patience:
        order = rng.permutation(len(graphs))
        for first in range(0, len(graphs), training.batch_size):
            if len(losses) == training.n_steps:
                break
            batch = [graphs[i] for i in order[first : first + training.batch_size]]
            if reorder is not None:
                batch = [reorder(graph, rng) for graph in batch]
            losses.append(_update(network, batch, optimiser))
            schedule.step()
        if validation:
            value = mean_log_likelihood(network, validation, batch_size=training.batch_size)
            n_without_gain = 0 if value > best_value else n_without_gain + 1
            if value > best_value:
                best_value = value
                best_state = {k: v.clone() for k, v in network.state_dict().items()}
        progress(Update("training", len(losses), training.n_steps, values={"loss": losses[-1]}))
    if validation:
        network.load_state_dict(best_state)
    return losses


@torch.no_grad()
def mean_log_likelihood(
    network: EdgeNetwork, graphs: Sequence[EdgeSequence], *, batch_size: int = 100
) -> float:
    """Return the mean log-likelihood of graphs in nats per graph."""
    total = 0.0
    for first in range(0, len(graphs), batch_size):
        total += float(_batch_likelihood(network, graphs[first : first + batch_size]).sum())
    return total / len(graphs)


def _batch_likelihood(network: EdgeNetwork, graphs: Sequence[EdgeSequence]) -> torch.Tensor:
    parameter = network.start.output.weight
    return log_likelihood(network, batch_of(graphs, dtype=parameter.dtype, device=parameter.device))


def _update(
    network: EdgeNetwork, graphs: Sequence[EdgeSequence], optimiser: torch.optim.Optimizer
) -> float:
    optimiser.zero_grad()
    loss = -_batch_likelihood(network, graphs).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), GRADIENT_NORM)
    optimiser.step()
    return loss.item()
