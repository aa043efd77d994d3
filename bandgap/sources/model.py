"""The source model: a network trained on labelled structures, with its scales, its descriptor and its card.

Besides the point estimate a source can carry what the Bayesian transfers need to know of each weight: the Fisher
information, a variational posterior, snapshots of SGD. The first is computed with every training; the others where the
settings ask for them, on the rows that the point estimate was trained on, which leaves the held-out rows to measure by.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.descriptors import MBTRConfig, n_features
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.perceptron import NetworkConfig, Params, init_params
from bandgap.networks.standardise import Standardiser, fit_standardiser, varies
from bandgap.networks.swag import SnapshotConfig, Snapshots
from bandgap.networks.training import Epoch, RowSplit, Trained, TrainingConfig, split_rows, train
from bandgap.networks.variational import VariationalConfig, VariationalFit
from bandgap.sources.parts import source_parts, squared_error, used_features, used_rows
from bandgap.sources.statistics import FeatureStatistics

SAME_ERROR = 0.02  # relative difference in error up to which rows count as those that a source was trained on


@dataclass(frozen=True)
class SourceConfig:
    """Widths of the hidden layers, how the network is trained, and the parts that are made only where asked for.

    Of several settings of the variational fit the one is kept whose means err least on the held-out rows.
    """

    hidden: tuple[int, ...] = (128, 64)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    variational: tuple[VariationalConfig, ...] = ()
    snapshots: SnapshotConfig | None = None


@dataclass(frozen=True)
class SourceCard:
    """What a source was trained on: names of its files, elements, level of theory, licence, sizes and errors (eV).

    `displacement_angstrom` is that of the atoms in the copies that it has also seen, 0 where there were none.
    """

    data: tuple[str, ...]
    n_structures: int
    elements: tuple[str, ...]
    level_of_theory: str = ""
    licence: str = ""
    validation_rmse_eV: float = float("nan")
    seed: int = 0
    displacement_angstrom: float = 0.0


@dataclass(frozen=True, eq=False)
class SourceModel:
    """Weights (float32, on the CPU), shape, standardisation, descriptor, card and learning curve of a source.

    The rest is None in a source that was made without it: the statistics of its last hidden features, the diagonal
    Fisher information of every parameter, the variational posterior, snapshots of SGD.
    """

    params: Params
    network: NetworkConfig
    standardiser: Standardiser
    descriptor: MBTRConfig
    card: SourceCard
    config: SourceConfig
    history: tuple[Epoch, ...] = ()
    features: FeatureStatistics | None = None
    fisher: Params | None = None
    variational: VariationalFit | None = None
    snapshots: Snapshots | None = None

    @property
    def extras(self) -> tuple[str, ...]:
        """Names of the parts beyond the point estimate that this source has."""
        return tuple(n for n in ("features", "fisher", "variational", "snapshots") if getattr(self, n) is not None)


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
    """Return the source, its point estimate unchanged, with the extras computed from the rows that it was trained on.

    Raw features (n, p) and gaps (n,) in eV, in the order of the training. Statistics of the last hidden features and
    the Fisher information are always made, from all rows; the variational posterior and the snapshots where the
    source's config asks for them, from the rows that were not held out. Raises InputError when the rows are others, as
    the error of the held-out ones tells.
    """
    n, card, used = len(gaps_eV), source.card, used_features(source.params)
    split = None
    if n == card.n_structures:
        split = _start(source.network, source.config.training, n=n, seed=card.seed)[2]
    x, y = used_rows(source.standardiser, features, gaps_eV, used=used)
    split = checked(split, source, x, y)
    return with_parts(source, x, y, split=split, seed=card.seed, device=device, progress=progress)


def checked(split: RowSplit | None, source: SourceModel, x: Tensor, y: Tensor, *, what: str = "the source") -> RowSplit:
    """Return the split where rows x (n, m) and y (n,) of `used_rows` are those of the training, by the held-out error.

    Raises InputError where they are not, and without a split, which is where their number is another one.
    """
    held_out = torch.arange(y.shape[0]) if split is None else split.held_out
    mse = squared_error(source.params, x, y, held_out, used=used_features(source.params))
    error, expected = math.sqrt(mse) * source.standardiser.y_sd_eV, source.card.validation_rmse_eV
    if split is None or not abs(error - expected) <= SAME_ERROR * expected:
        raise InputError(
            f"{what} was trained on {source.card.n_structures} structures with an error of {expected:.4f} eV on "
            f"those held out; these are {y.shape[0]} structures with an error of {error:.4f} eV. Give the structures "
            "and gaps that it was trained on, in the same order."
        )
    return split


def with_parts(
    source: SourceModel,
    x: Tensor,
    y: Tensor,
    *,
    split: RowSplit,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> SourceModel:
    """Return the source with the extras that its config asks for, from its rows x (n, m) and y (n,) of `used_rows`."""
    parts = source_parts(
        source.params,
        x,
        y,
        used=used_features(source.params),
        split=split,
        noise_variance=(source.card.validation_rmse_eV / source.standardiser.y_sd_eV) ** 2,
        variational=source.config.variational,
        snapshots=source.config.snapshots,
        seed=seed,
        device=choose_device(device),
        progress=progress,
    )
    return replace(
        source,
        features=parts.features,
        fisher=parts.fisher,
        variational=parts.variational or source.variational,
        snapshots=parts.snapshots or source.snapshots,
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
    """Train a network from a Glorot start on raw features (n, p) and gaps (n,) in eV, on scales of these rows alone.

    Weights of features that never vary are zero, so that elements that only other rows have enter through a prior or
    not at all, and never through noise.
    """
    target = choose_device(device)
    standardiser = fit_standardiser(features, gaps_eV)
    x, y = _standardised_rows(standardiser, features, gaps_eV)
    generator, start, split = _start(network, config, n=y.shape[0], seed=seed)
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


def _start(
    network: NetworkConfig, config: TrainingConfig, *, n: int, seed: int
) -> tuple[torch.Generator, Params, RowSplit]:
    """Return what a seed gives to the training on n rows: its generator, the first weights, the split of the rows."""
    generator = torch.Generator().manual_seed(seed)
    start = init_params(network, generator=generator)
    return generator, start, split_rows(n, share=config.validation_share, generator=generator)


def _standardised_rows(
    standardiser: Standardiser, features: NDArray[np.floating], gaps_eV: NDArray[np.floating]
) -> tuple[Tensor, Tensor]:
    """Return standardised features (n, p) and gaps (n,), in float32."""
    x = torch.from_numpy(standardiser.features(features)).float()
    x[:, torch.from_numpy(~varies(features))] = 0.0  # Adam would blow up gradients by rounding; by zero weights stay
    return x, torch.from_numpy(standardiser.gaps(gaps_eV)).float()
