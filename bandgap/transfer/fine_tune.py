"""Fine-tuning: all layers are trained from the source's weights (Abba 2023, section 2.5).

Training is early-stopped Adam. The result is a point estimate, stored as one draw
(`point_estimate`).
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation import citations
from bandgap.foundation.config import ShareAboveZero
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.point_estimate import TrainedOnce, train_once


@dataclass(frozen=True)
class FineTuneConfig(TrainedOnce):
    """Scales (`recalibration`) and training of all layers.

    Parameters
    ----------
    hidden_rate_share
        Learning rate of the hidden layers as a share of the output layer's. The paper has 0.1; 1
        because that is what it advises, while its comparison trains all layers alike.
    """

    hidden_rate_share: ShareAboveZero = 1.0


def fit(
    source: SourceModel, data: TargetData, config: FineTuneConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train all layers on the training rows (features (n, p), gaps in eV)."""
    return train_once(
        source,
        data,
        config,
        fitting,
        phase="fine-tuning",
        rate_shares=dict.fromkeys(range(1, source.network.n_layers), config.hidden_rate_share),
    )


METHOD: Final = Method(
    name="fine_tune",
    family="one trained network",
    standing="alternative",
    title="Fine-tuning",
    summary="Trains all layers from the source model's weights. One network, no posterior.",
    references=(citations.COMPARISON,),
    duration="seconds",
    cost=Cost(0.5, 1.5),
    config=FineTuneConfig,
    fit=fit,
    new_elements=True,
)
