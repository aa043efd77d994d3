"""Freezing: the hidden layers stay fixed and the output layer is refitted (Abba 2023, section 2.5).

The fit is a penalised least-squares regression of the gaps on the last hidden activations, by
early-stopped Adam. The result is a point estimate, stored as one draw (`point_estimate`).
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation import citations
from bandgap.networks.training import TrainingConfig
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.point_estimate import OUTPUT_LAYER, TrainedOnce, train_once


@dataclass(frozen=True)
class FreezeConfig(TrainedOnce):
    """Scales (`recalibration`) and training of the output layer.

    Parameters
    ----------
    training
        Training of the output layer. Patience: The paper has 6; 30 because a few hundred rows make
        few steps an epoch. Learning rate: The paper has 0.001; 0.01 because the output layer alone
        is a convex problem, and with a tenth of it 300 epochs were too few.
    """

    training: TrainingConfig = OUTPUT_LAYER


def fit(
    source: SourceModel, data: TargetData, config: FreezeConfig, fitting: Fitting
) -> NetworkPosterior:
    """Refit the output layer to the training rows (features (n, p), gaps in eV)."""
    return train_once(
        source,
        data,
        config,
        fitting,
        phase="refitting the output layer",
        frozen=range(1, source.network.n_layers),
    )


METHOD: Final = Method(
    name="freeze",
    family="output layer alone",
    standing="alternative",
    title="Frozen hidden layers",
    summary=(
        "Keeps the source model's hidden layers and refits its output layer. One network, no "
        "posterior."
    ),
    references=(citations.COMPARISON,),
    duration="seconds",
    cost=Cost(0.4, 2),
    config=FreezeConfig,
    fit=fit,
)
