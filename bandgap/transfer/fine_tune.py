"""Fine-tuning: all layers trained from the source weights by early-stopped Adam (Abba 2023, section 2.5).

A point estimate, wrapped as one draw (`point_estimate`).
"""

from dataclasses import dataclass

from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.training import TrainingConfig
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice
from bandgap.transfer.shared.method import TargetData
from bandgap.transfer.shared.point_estimate import ALL_LAYERS, train_once


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
    return train_once(source, data, config, phase="fine-tuning", seed=seed, device=device, progress=progress)
