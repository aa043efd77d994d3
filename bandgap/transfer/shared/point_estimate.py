"""What methods that train one network share: the start at the source, and a posterior of one draw.

The noise of a trained network is the root mean square residual of the rows held out for early
stopping.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.machine import choose_device
from bandgap.networks.perceptron import Params, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import Trained, TrainingConfig, train
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.transfer.shared.method import Fitting, Scales, TargetData

ALL_LAYERS = TrainingConfig(batch_size=32, max_epochs=300, patience=30)
# The output layer alone is a convex problem and takes ten times the learning rate: with 1e-3, 300
# epochs on 200 crystals of the demo ended before the held-out error stopped falling.
OUTPUT_LAYER = TrainingConfig(learning_rate=1e-2, batch_size=32, max_epochs=300, patience=30)


@dataclass(frozen=True, eq=False)
class SourceStart:
    """Source weights and standardised training rows, float32 on one device.

    Attributes
    ----------
    standardiser
        Scales of features and gaps.
    params
        The source's weights.
    x, y
        Standardised features (n, p) and gaps (n,).
    """

    standardiser: Standardiser
    params: Params
    x: Tensor
    y: Tensor


def start_at_source(
    source: SourceModel,
    data: TargetData,
    *,
    statistics: StatisticsChoice,
    gap_scale: GapScale,
    device: str,
) -> SourceStart:
    """Put the source's weights and the standardised training rows on the device."""
    standardiser = standardiser_for(
        source, data.features, data.gaps_eV, statistics=statistics, gap_scale=gap_scale
    )
    torch_device = choose_device(device)
    return SourceStart(
        standardiser,
        {name: value.to(torch_device) for name, value in source.params.items()},
        torch.from_numpy(standardiser.features(data.features)).float().to(torch_device),
        torch.from_numpy(standardiser.gaps(data.gaps_eV)).float().to(torch_device),
    )


@dataclass(frozen=True)
class TrainedOnce(Scales):
    """Scales (`recalibration`) and training.

    The batch size is at most the number of training rows.

    Parameters
    ----------
    training
        Training of the network. Patience: The paper has 6; 30 because a few hundred rows make few
        steps an epoch.
    """

    training: TrainingConfig = ALL_LAYERS


def train_once(
    source: SourceModel,
    data: TargetData,
    config: TrainedOnce,
    fitting: Fitting,
    *,
    phase: str,
    frozen: Collection[int] = (),
    rate_shares: Mapping[int, float] | None = None,
) -> NetworkPosterior:
    """Train from the source's weights on rows (features (n, p), gaps in eV).

    Layers in `frozen`, counted from 1, stay fixed; `rate_shares` are shares of the learning rate by
    layer. `phase` is the label of the progress.
    """
    start = start_at_source(source, data, **config.scales, device=fitting.device)
    trained = train(
        start.params,
        start.x,
        start.y,
        config=config.training,
        generator=torch.Generator().manual_seed(fitting.seed),
        frozen=frozen,
        rate_shares=rate_shares,
        phase=phase,
        progress=fitting.progress,
    )
    return point_posterior(trained, standardiser=start.standardiser, seed=fitting.seed)


def point_posterior(trained: Trained, *, standardiser: Standardiser, seed: int) -> NetworkPosterior:
    """Return the trained network as one draw, with the noise of the held-out residuals."""
    first, *upper = [layer.cpu() for layer in layers_of(trained.params)]
    sigma = float(np.sqrt(trained.validation_mse))
    return draws_above(
        first,
        [layer[None, None] for layer in upper],
        sigma=sigma,
        standardiser=standardiser,
        seed=seed,
    )


def draws_above(
    first: Tensor, upper: Sequence[Tensor], *, sigma: float, standardiser: Standardiser, seed: int
) -> NetworkPosterior:
    """Return draws of the layers (1, draw, out, in + 1) above one first layer (width, in + 1)."""
    width, n_inputs = first.shape
    draws = upper[0].shape[1]
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=first,
        basis=torch.zeros(n_inputs, 0),
        coordinates=torch.zeros(1, draws, width, 0),
        scale_1=torch.zeros(1, draws),
        upper=tuple(upper),
        sigma=np.full((1, draws), sigma),
        seed=seed,
    )
