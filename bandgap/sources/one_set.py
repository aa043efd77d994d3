"""The training of a source network on one labelled set, and of a network without a source."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.potentials import potential_card_text
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.perceptron import NetworkConfig, Params, init_params
from bandgap.networks.row_blocks import Rows, StandardisedRows, is_large
from bandgap.networks.standardise import Standardiser, fit_standardiser, varies
from bandgap.networks.training import RowSplit, Trained, TrainingConfig, split_rows, train
from bandgap.sources.extras import checked_split, rows_to_visit, used_features, with_computed_extras
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel


def train_source(
    features: NDArray[np.floating],
    gaps_eV: NDArray[np.floating],
    *,
    descriptor: DescriptorConfig,
    config: SourceConfig,
    data: Sequence[str],
    elements: Sequence[str],
    level_of_theory: str = "",
    licence: str = "",
    graph_description: str = "",
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Train a source network by Adam with early stopping, and compute its extras.

    Parameters
    ----------
    features
        Raw features (n, p).
    gaps_eV
        Gaps (n,).
    descriptor, config, seed
        Descriptor of the features, settings and seed of the training.
    data, elements, level_of_theory, licence, graph_description
        Entries of the card.
    """
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
    n_held_out = len(trained.validation_residuals)
    held_out_mse = trained.half_errors.both
    if descriptor.graph is not None:  # the first half chose the epoch of the graph network
        n_held_out -= n_held_out // 2
        held_out_mse = trained.half_errors.second
    is_measured = math.isfinite(held_out_mse)
    card = SourceCard(
        tuple(data),
        int(gaps_eV.shape[0]),
        tuple(sorted(elements)),
        level_of_theory,
        licence,
        rmse,
        seed,
        potential=potential_card_text(descriptor.potential, descriptor.second_potential),
        graph=graph_description,
        n_held_out=n_held_out if is_measured else 0,
        held_out_rmse_eV=math.sqrt(held_out_mse) * standardiser.y_sd_eV if is_measured else None,
    )
    params = {name: value.cpu() for name, value in trained.params.items()}
    source = SourceModel(params, network, standardiser, descriptor, card, config, trained.history)
    return with_extras(source, features, gaps_eV, device=device, progress=progress)


def with_extras(
    source: SourceModel,
    features: NDArray[np.floating],
    gaps_eV: NDArray[np.floating],
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source with the extras that its config asks for; its weights are not changed.

    Statistics of the last hidden features and the Fisher information are always computed, from all
    rows. The variational posterior and the snapshots use the rows that were not held out.

    Parameters
    ----------
    source
        The source model.
    features, gaps_eV
        Raw features (n, p) and gaps (n,) of the training, in the same order.

    Raises
    ------
    InputError
        If the error on the held-out rows shows that these are not the rows of the training.
    """
    n = len(gaps_eV)
    card = source.card
    used = used_features(source.params)
    split = None
    if n == card.n_structures:
        split = first_state(source.network, source.config.training, n=n, seed=card.seed)[2]
    x, y = rows_to_visit(source.standardiser, features, gaps_eV, used=used)
    split = checked_split(split, source, x, y)
    return with_computed_extras(
        source, x, y, split=split, seed=card.seed, device=device, progress=progress
    )


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
    """Train a network from a Glorot start; return its standardiser and the trained network.

    The standardiser is that of these rows. Weights of features that never vary are zero, so that
    features of elements that only other rows contain enter through a prior, not through noise.

    Parameters
    ----------
    features, gaps_eV
        Raw features (n, p) and gaps (n,).
    network, config, seed
        Shape of the network, settings and seed of the training.
    """
    target = choose_device(device)
    standardiser = fit_standardiser(features, gaps_eV)
    x, y = _standardised_rows(standardiser, features, gaps_eV)
    generator, start, split = first_state(network, config, n=y.shape[0], seed=seed)
    start["weight.1"][:, torch.from_numpy(~varies(features))] = 0.0
    trained = train(
        {name: value.to(target) for name, value in start.items()},
        x.to(target),
        y.to(target),
        config=config,
        generator=generator,
        split=split,
        phase=phase,
        progress=progress,
    )
    return standardiser, trained


def first_state(
    network: NetworkConfig, config: TrainingConfig, *, n: int, seed: int
) -> tuple[torch.Generator, Params, RowSplit]:
    """Return the generator, the first weights and the split of n rows that a seed gives."""
    generator = torch.Generator().manual_seed(seed)
    start = init_params(network, generator=generator)
    return generator, start, split_rows(n, share=config.validation_share, generator=generator)


def _standardised_rows(
    standardiser: Standardiser, features: NDArray[np.floating], gaps_eV: NDArray[np.floating]
) -> tuple[Rows, Tensor]:
    """Return standardised features (n, p) and gaps (n,) in float32.

    Rows of a large set are standardised when they are used.
    """
    y = torch.from_numpy(standardiser.gaps(gaps_eV)).float()
    # Adam would amplify the rounding of these features; with zero rows their weights stay.
    silent = ~varies(features)
    if is_large(features):
        return StandardisedRows(features, standardiser, silent=silent), y
    x = torch.from_numpy(standardiser.features(features)).float()
    x[:, torch.from_numpy(silent)] = 0.0
    return x, y
