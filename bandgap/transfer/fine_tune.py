"""Fine-tuning: all layers trained from the source weights by early-stopped Adam (Abba 2023, section 2.5).

A point estimate, wrapped as one draw. Its noise is the root mean square residual of the rows held out for early
stopping.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from bandgap.devices import choose_device
from bandgap.posterior import NetworkPosterior
from bandgap.progress import Progress, no_progress
from bandgap.source import SourceModel
from bandgap.standardise import Statistics
from bandgap.training import TrainingConfig, train
from bandgap.transfer.method import TargetData


@dataclass(frozen=True)
class FineTuneConfig:
    """Feature statistics and training; the batch size is capped at the number of training rows."""

    standardise: Statistics = "target"
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(batch_size=32, max_epochs=300, patience=30))


def fit(
    source: SourceModel,
    data: TargetData,
    config: FineTuneConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> NetworkPosterior:
    """Train all layers on the target's training rows (features (n, p), gaps in eV), from the source weights."""
    standardiser = source.standardiser.for_target(data.features, statistics=config.standardise)
    place = choose_device(device)
    trained = train(
        {name: value.to(place) for name, value in source.params.items()},
        torch.from_numpy(standardiser.features(data.features)).float().to(place),
        torch.from_numpy(standardiser.gaps(data.gaps_eV)).float().to(place),
        config=config.training,
        generator=torch.Generator().manual_seed(seed),
        phase="fine-tuning",
        progress=progress,
    )
    layers = [
        torch.cat([trained.params[f"weight.{i}"], trained.params[f"bias.{i}"][:, None]], 1).cpu()
        for i in range(1, source.network.n_layers + 1)
    ]
    width, n_inputs = layers[0].shape
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=layers[0],
        basis=torch.zeros(n_inputs, 0),
        coordinates=torch.zeros(1, 1, width, 0),
        scale_1=torch.zeros(1, 1),
        upper=tuple(layer[None, None] for layer in layers[1:]),
        sigma=np.array([[float(trained.validation_residuals.double().square().mean().sqrt())]]),
        seed=seed,
    )
