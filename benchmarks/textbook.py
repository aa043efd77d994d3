"""A plain loop for NPTL: one torch.nn network after the other, with all weights and 2n rows.

Start, weights, optimiser, schedule, clipping, epochs and number of steps are those of
`transfer/nptl.py`. Rows and pseudo rows are 2n rows of one data set.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bandgap.foundation.progress import Progress, Update
from bandgap.inference.batch.bootstrap import block_weights, stream
from bandgap.inference.batch.training import StackTraining
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.folds import Start

Floats = NDArray[np.float64]


def textbook_nptl(
    source: SourceModel,
    start: Start,
    x: Floats,
    *,
    samples: int,
    alpha: float,
    blocks: int,
    config: StackTraining,
    batch_size: int,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> list[nn.Sequential]:
    """Train `samples` networks on the training rows of a start.

    `x` (n, p) has all rows of the start, standardised. `batch_size` counts rows and pseudo rows.
    """

    def place(values: Floats) -> Tensor:
        return torch.from_numpy(values).float().to(device)

    y = start.y[start.trained]
    x_train = x[start.trained]
    rows = place(np.vstack([x_train, x_train]))
    labels = place(np.append(y, start.probe.predict(start.hidden[start.trained])))
    networks = []
    for m in range(samples):
        drawn = block_weights(y.size, blocks=blocks, alpha=alpha, rng=stream(seed, m, "weights"))
        weights = place(np.append(drawn.data, drawn.pseudo))
        network = network_of(source, start).to(device)
        generator = torch.Generator().manual_seed(m)
        train(
            network,
            rows,
            labels,
            weights,
            config=config,
            batch_size=batch_size,
            generator=generator,
        )
        networks.append(network)
        progress(Update(f"textbook loop, batches of {batch_size}", m + 1, samples))
    return networks


def network_of(source: SourceModel, start: Start) -> nn.Sequential:
    """Return the source's network with the probe as its output layer."""
    widths = [source.network.n_features, *source.network.hidden]
    modules: list[nn.Module] = []
    with torch.no_grad():
        for level, (inputs, outputs) in enumerate(pairwise(widths), start=1):
            hidden = nn.Linear(inputs, outputs)
            hidden.weight.copy_(source.params[f"weight.{level}"])
            hidden.bias.copy_(source.params[f"bias.{level}"])
            modules += [hidden, nn.ReLU()]
        last = nn.Linear(widths[-1], 1)
        last.weight.copy_(torch.from_numpy(start.probe.weights)[None])
        last.bias.fill_(start.probe.intercept)
    return nn.Sequential(*modules, last)


def train(
    network: nn.Sequential,
    x: Tensor,
    y: Tensor,
    weights: Tensor,
    *,
    config: StackTraining,
    batch_size: int,
    generator: torch.Generator,
) -> None:
    """Train a network by Adam on half the weighted squared error, with weights of mean 1."""
    optimiser = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, config.epochs)
    for _ in range(config.epochs):
        order = torch.randperm(y.shape[0], generator=generator).to(y.device)
        for batch in torch.split(order, batch_size):
            optimiser.zero_grad()
            loss = 0.5 * (weights[batch] * (y[batch] - network(x[batch]).squeeze(-1)) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), config.clip)
            optimiser.step()
        schedule.step()


def predict_eV(networks: Sequence[nn.Sequential], start: Start, x: Floats) -> Floats:
    """Return the gaps (network, n) in eV of standardised rows x (n, p)."""
    device = next(networks[0].parameters()).device
    rows = torch.from_numpy(x).float().to(device)
    with torch.no_grad():
        values = [network(rows).squeeze(-1).double().cpu().numpy() for network in networks]
    return start.standardiser.gaps_eV(np.stack(values))
