"""Fine-tuning: all layers trained from the source weights by early-stopped Adam (Abba 2023, section 2.5).

A point estimate, wrapped as one draw (`point_estimate`).
"""

from dataclasses import dataclass

import torch

from bandgap.posterior import NetworkPosterior
from bandgap.progress import Progress, no_progress
from bandgap.recalibration import GapScale, StatisticsChoice
from bandgap.source import SourceModel
from bandgap.training import TrainingConfig, train
from bandgap.transfer.method import TargetData
from bandgap.transfer.point_estimate import ALL_LAYERS, point_posterior, start_at_source


@dataclass(frozen=True)
class FineTuneConfig:
    """Scales (`recalibration`) and training; the batch size is capped at the number of training rows."""

    standardise: StatisticsChoice = "auto"
    gap_scale: GapScale = "calibrated"
    training: TrainingConfig = ALL_LAYERS


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
    start = start_at_source(source, data, statistics=config.standardise, gap_scale=config.gap_scale, device=device)
    trained = train(
        start.params,
        start.x,
        start.y,
        config=config.training,
        generator=torch.Generator().manual_seed(seed),
        phase="fine-tuning",
        progress=progress,
    )
    return point_posterior(trained, standardiser=start.standardiser, seed=seed)
