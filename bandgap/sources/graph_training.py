"""Train a source whose features a graph network learns: MEGNet blocks with a source network on top.

Both are trained together on structures and gaps, by Adam with early stopping (Abba 2023, section
3.5). The graph network of the best epoch then describes structures by its readout. The source
network is trained again on the readout, with the same rows held out. Transfers start from these two
as from any other source, and change only the weights of the source network. Measured times and
errors are in docs/explanation/which-source-and-method.md.
"""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.datasets.table import learnable_without_features
from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.block_settings import GraphBody
from bandgap.descriptors.graphs import graph_of
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.perceptron import NetworkConfig, Params, forward
from bandgap.networks.training import ADAM_EPS, Epoch, TrainingConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import first_state
from bandgap.structures import StructureRecord

if TYPE_CHECKING:
    from bandgap.networks.megnet import Graphs

# Widths of the source network on top.
HIDDEN: Final = (1024, 512)
# Structures between two updates while graphs are built.
UPDATE_EVERY: Final = 10


@dataclass(frozen=True, eq=False)
class TrainedBody:
    """A trained graph network.

    Parameters
    ----------
    body
        The network at its best epoch.
    history
        Errors of all epochs.
    rmse_eV
        Error on the rows that chose the epoch, with the network that was trained on top.
    epoch_s
        Median time of an epoch in seconds.
    device
        Type of the device.
    """

    body: GraphBody
    history: tuple[Epoch, ...]
    rmse_eV: float
    epoch_s: float
    device: str

    @property
    def card_text(self) -> str:
        """Its entry in the card of a source."""
        config = self.body.config
        return (
            f"MEGNet (Chen et al., 2019), {config.blocks} blocks, {config.max_neighbours} "
            f"neighbours within {config.cutoff_angstrom:g} angstrom; {len(self.history)} epochs "
            f"of {self.epoch_s:.1f} s on {self.device}"
        )


def body_of_source(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    graph: GraphConfig,
    *,
    config: SourceConfig,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> TrainedBody:
    """Train the graph network of a source on its labelled structures, as `train_body`.

    Structures that are refused, have no gap (NaN) or contain another element are left out. Raises
    InputError if fewer than three remain, and ConfigError if torch_geometric is not installed.
    """
    table = learnable_without_features(
        records, gaps_eV, descriptor=DescriptorConfig(graph=GraphBody(graph, ""))
    )
    return train_body(
        table.records,
        table.gaps_eV,
        graph=graph,
        hidden=config.hidden,
        training=config.training,
        seed=seed,
        device=device,
        progress=progress,
    )


def train_body(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.float64],
    *,
    graph: GraphConfig,
    hidden: tuple[int, ...] = HIDDEN,
    training: TrainingConfig | None = None,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> TrainedBody:
    """Train a graph network with a perceptron on top.

    The held-out rows are those of the source network's own training with this seed. Their first
    half chooses the epoch. Only early stopping regularises; the penalties of `training` are not
    used.

    Parameters
    ----------
    records, gaps_eV
        Structures and their gaps (n,).
    graph
        Settings of the graph network.
    hidden
        Widths of the perceptron.
    training, seed
        Settings and seed of the training.

    Raises
    ------
    InputError
        For fewer than three structures, and if all gaps are equal.
    """
    settings = training or TrainingConfig()
    n = len(records)
    if not gaps_eV.std() > 0:
        raise InputError(
            f"all {n} gaps of the source set are {gaps_eV[0]} eV. A source needs gaps that differ."
        )
    generator, start, split = first_state(
        NetworkConfig(graph.n_features, hidden), settings, n=n, seed=seed
    )
    stopping = split.halves[0] if split.halves[0].numel() else split.held_out
    y = (gaps_eV - gaps_eV.mean()) / gaps_eV.std()
    pair = _Pair(
        _graphs(records, graph, progress),
        y,
        graph,
        start,
        settings,
        seed=seed,
        device=choose_device(device),
    )
    best = float("inf")
    n_waiting = 0
    weights = pair.weights()
    history: list[Epoch] = []
    seconds: list[float] = []
    while len(history) < settings.max_epochs and n_waiting < settings.patience:
        start_s = time.perf_counter()
        order = split.training[torch.randperm(len(split.training), generator=generator)]
        update = Update("training the graph network", len(history), settings.max_epochs)
        training_mse = pair.epoch(order, functools.partial(progress, update))
        history.append(Epoch(training_mse, pair.mean_squared_error(stopping)))
        seconds.append(time.perf_counter() - start_s)
        values = {"validation_mse": history[-1].validation, "epoch_s": seconds[-1]}
        progress(replace(update, done=len(history), values=values))
        if history[-1].validation < best:
            best = history[-1].validation
            n_waiting = 0
            weights = pair.weights()
            continue
        n_waiting += 1
        if n_waiting % settings.plateau_epochs == 0:
            pair.multiply_learning_rate(settings.plateau_factor)
    rmse = best**0.5 * float(gaps_eV.std())
    return TrainedBody(
        GraphBody.of(graph, weights), tuple(history), rmse, median(seconds), pair.device.type
    )


class _Pair:
    """A graph network and the perceptron on top, on graphs and standardised gaps (n,)."""

    def __init__(
        self,
        graphs: Sequence["Graphs"],
        y: NDArray[np.float64],
        config: GraphConfig,
        start: Params,
        settings: TrainingConfig,
        *,
        seed: int,
        device: torch.device,
    ) -> None:
        from bandgap.networks.megnet import new_megnet

        self.device = device
        self._graphs = graphs
        self._settings = settings
        self._y = torch.from_numpy(y).float().to(device)
        self._network = new_megnet(config, seed=seed).to(device)
        self._head = {name: value.to(device).requires_grad_() for name, value in start.items()}
        parameters = [*self._network.parameters(), *self._head.values()]
        self._optimiser = torch.optim.Adam(parameters, lr=settings.learning_rate, eps=ADAM_EPS)

    def epoch(self, order: Tensor, after_batch: Callable[[], None]) -> float:
        """Train on the rows in this order; return the mean squared error during the epoch."""
        total = 0.0
        for rows in torch.split(order, self._settings.batch_size):
            self._optimiser.zero_grad()
            error = self._residuals(rows).square().mean()
            error.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()
            total += float(error.detach()) * len(rows)
            after_batch()
        return total / len(order)

    @torch.no_grad()
    def mean_squared_error(self, rows: Tensor) -> float:
        """Return the mean squared error of these rows."""
        residuals = torch.cat(
            [self._residuals(batch) for batch in torch.split(rows, self._settings.batch_size)]
        )
        return float(residuals.double().square().mean())

    def multiply_learning_rate(self, factor: float) -> None:
        """Multiply the learning rate."""
        for group in self._optimiser.param_groups:
            group["lr"] *= factor

    def weights(self) -> Params:
        """Return a copy of the graph network's weights, on the CPU."""
        return {
            name: value.detach().cpu().clone() for name, value in self._network.state_dict().items()
        }

    def _residuals(self, rows: Tensor) -> Tensor:
        from bandgap.networks.megnet import Graphs

        batch = Graphs.joined([self._graphs[int(row)] for row in rows]).to(self.device)
        return self._y[rows.to(self.device)] - forward(self._head, self._network(batch))


def _graphs(
    records: Sequence[StructureRecord], graph: GraphConfig, progress: Progress
) -> list["Graphs"]:
    """Return the graphs of structures."""
    graphs = []
    for k, record in enumerate(records):
        assert record.atoms is not None  # because it is not refused
        graphs.append(graph_of(record.atoms, graph))
        if k % UPDATE_EVERY == 0:
            progress(Update("building graphs", k, len(records)))
    return graphs
