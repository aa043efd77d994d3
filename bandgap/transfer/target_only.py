"""Target only (TL1): a new network trained on the target alone (Abba 2023, section 2.5).

It is the reference for what a transfer gains: Glorot-uniform weights trained by early-stopped Adam.
From the source it takes only the network's shape and the descriptor. Features and gaps are
standardised by the target's training rows. The result is a point estimate, stored as one draw
(`point_estimate`).
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation import citations
from bandgap.foundation.config import Settings
from bandgap.networks.training import TrainingConfig
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.one_set import train_fresh
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.point_estimate import ALL_LAYERS, point_posterior


@dataclass(frozen=True)
class TargetOnlyConfig(Settings):
    """Training; the batch size is capped at the number of training rows.

    Parameters
    ----------
    training
        Training of the network. Patience: The paper has 6; 30 because a few hundred rows make few
        steps an epoch.
    """

    training: TrainingConfig = ALL_LAYERS


def fit(
    source: SourceModel, data: TargetData, config: TargetOnlyConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train a new network on the training rows (features (n, p), gaps in eV)."""
    standardiser, trained = train_fresh(
        data.features,
        data.gaps_eV,
        network=source.network,
        config=config.training,
        seed=fitting.seed,
        device=fitting.device,
        phase="training on the target alone",
        progress=fitting.progress,
    )
    return point_posterior(trained, standardiser=standardiser, seed=fitting.seed)


METHOD: Final = Method(
    name="target_only",
    family="without transfer",
    standing="alternative",
    title="Without transfer",
    summary=(
        "Trains a new network with the labelled crystals only. Shows what a transfer gains. "
        "No posterior."
    ),
    references=(citations.COMPARISON,),
    duration="seconds",
    cost=Cost(0.6, 5.7),
    config=TargetOnlyConfig,
    fit=fit,
    new_elements=True,
)
