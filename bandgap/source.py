"""The source model: a network trained on molecules, with its scales, its descriptor and its card."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.descriptors import MBTRConfig, n_features
from bandgap.devices import choose_device
from bandgap.errors import InputError
from bandgap.networks import NetworkConfig, Params, init_params
from bandgap.progress import Progress, no_progress
from bandgap.source_statistics import FeatureStatistics, feature_statistics
from bandgap.standardise import Standardiser, fit_standardiser, varies
from bandgap.training import Epoch, Trained, TrainingConfig, train


@dataclass(frozen=True)
class SourceConfig:
    """Widths of the hidden layers and how the network is trained."""

    hidden: tuple[int, ...] = (128, 64)
    training: TrainingConfig = field(default_factory=TrainingConfig)


@dataclass(frozen=True)
class SourceCard:
    """What a source was trained on: names of its files, elements, level of theory, licence, sizes and errors (eV)."""

    data: tuple[str, ...]
    n_structures: int
    elements: tuple[str, ...]
    level_of_theory: str = ""
    licence: str = ""
    validation_rmse_eV: float = float("nan")
    seed: int = 0


@dataclass(frozen=True, eq=False)
class SourceModel:
    """Weights (float32, on the CPU), shape, standardisation, descriptor, card and learning curve of a source.

    `features` are the statistics of its last hidden features; None in a source that was stored without them.
    """

    params: Params
    network: NetworkConfig
    standardiser: Standardiser
    descriptor: MBTRConfig
    card: SourceCard
    config: SourceConfig
    history: tuple[Epoch, ...] = ()
    features: FeatureStatistics | None = None


def train_source(
    features: NDArray[np.floating],
    gaps_eV: NDArray[np.floating],
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    data: Sequence[str],
    elements: Sequence[str],
    level_of_theory: str = "",
    licence: str = "",
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Train a source network on raw features (n, p) and gaps (n,) in eV, by Adam with early stopping.

    Raises InputError when the shapes do not fit.
    """
    if features.shape != (gaps_eV.shape[0], n_features(descriptor)):
        raise InputError(
            f"features have shape {features.shape}; {gaps_eV.shape[0]} gaps and the descriptor's "
            f"{n_features(descriptor)} features were expected."
        )
    network = NetworkConfig(features.shape[1], config.hidden)
    standardiser, trained = train_fresh(
        features,
        gaps_eV,
        network=network,
        config=config.training,
        seed=seed,
        device=device,
        phase="training the source network",
        progress=progress,
    )
    rmse = math.sqrt(trained.validation_mse) * standardiser.y_sd_eV
    card = SourceCard(tuple(data), int(gaps_eV.shape[0]), tuple(sorted(elements)), level_of_theory, licence, rmse, seed)
    params = {name: value.cpu() for name, value in trained.params.items()}
    x = torch.from_numpy(standardiser.features(features)).float()
    statistics = feature_statistics(params, x, residual_variance=trained.validation_mse)
    return SourceModel(params, network, standardiser, descriptor, card, config, trained.history, statistics)


def train_fresh(
    features: NDArray[np.floating],
    gaps_eV: NDArray[np.floating],
    *,
    network: NetworkConfig,
    config: TrainingConfig,
    seed: int,
    device: str = "auto",
    phase: str = "training",
    progress: Progress = no_progress,
) -> tuple[Standardiser, Trained]:
    """Train a network from a Glorot start on raw features (n, p) and gaps (n,) in eV, on scales of these rows alone.

    Weights of features that never vary are zero, so that elements that only other rows have enter through a prior or
    not at all, and never through noise.
    """
    target = choose_device(device)
    standardiser = fit_standardiser(features, gaps_eV)
    generator = torch.Generator().manual_seed(seed)
    start = init_params(network, generator=generator)
    constant = torch.from_numpy(~varies(features))
    start["weight.1"][:, constant] = 0.0
    x = torch.from_numpy(standardiser.features(features)).float().to(target)
    x[:, constant.to(target)] = 0.0  # Adam would blow up gradients by rounding; by zero they leave the weights at zero
    y = torch.from_numpy(standardiser.gaps(gaps_eV)).float().to(target)
    placed = {name: value.to(target) for name, value in start.items()}
    trained = train(placed, x, y, config=config, generator=generator, phase=phase, progress=progress)
    return standardiser, trained
