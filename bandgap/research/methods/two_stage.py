"""Two stages (TL2): the output layer is trained first, then all layers (Abba 2023, section 2.5).

Both stages are early-stopped Adam with the same held-out rows. Otherwise the first stage would
train on the rows that the second holds out: its early stopping would not detect overfitting, and
the noise, the root mean square residual of these rows, would be too small. The weights are those of
the best validation epoch of both stages. The result is a point estimate, stored as one draw
(`point_estimate`).
"""

from dataclasses import dataclass
from typing import Final

import torch

from bandgap.foundation import citations
from bandgap.foundation.config import ShareAboveZero
from bandgap.foundation.errors import ConfigError
from bandgap.networks.training import TrainingConfig, split_rows, train
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.point_estimate import (
    ALL_LAYERS,
    OUTPUT_LAYER,
    point_posterior,
    start_at_source,
)


@dataclass(frozen=True)
class TwoStageConfig(Scales):
    """Scales (`recalibration`), training of the output layer and then of all layers.

    Parameters
    ----------
    output_layer
        Training of the first stage. Learning rate: The paper has 0.001; 0.01 because the output
        layer alone is a convex problem, and with a tenth of it 300 epochs were too few.
    all_layers
        Training of the second stage. Patience: The paper has 6; 30 because a few hundred rows make
        few steps an epoch.
    hidden_rate_share
        Learning rate of the hidden layers in the second stage, as a share of the output layer's.
        The paper has 0.1; 1 because that is what it advises, while its second stage trains all
        layers alike.
    """

    output_layer: TrainingConfig = OUTPUT_LAYER
    all_layers: TrainingConfig = ALL_LAYERS
    hidden_rate_share: ShareAboveZero = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.output_layer.validation_share
        second = self.all_layers.validation_share
        if first != second:
            raise ConfigError(
                f"two_stage: validation share {first} in output_layer, {second} in all_layers. "
                "Both stages hold the same rows out: give both the same share."
            )


def fit(
    source: SourceModel, data: TargetData, config: TwoStageConfig, fitting: Fitting
) -> NetworkPosterior:
    """Train the output layer, then all layers, on the rows (features (n, p), gaps in eV)."""
    start = start_at_source(source, data, **config.scales, device=fitting.device)
    generator = torch.Generator().manual_seed(fitting.seed)
    split = split_rows(
        data.gaps_eV.size, share=config.output_layer.validation_share, generator=generator
    )
    first = train(
        start.params,
        start.x,
        start.y,
        config=config.output_layer,
        generator=generator,
        frozen=range(1, source.network.n_layers),
        split=split,
        phase="training the output layer",
        progress=fitting.progress,
    )
    second = train(
        first.params,
        start.x,
        start.y,
        config=config.all_layers,
        generator=generator,
        rate_shares=dict.fromkeys(range(1, source.network.n_layers), config.hidden_rate_share),
        split=split,
        phase="training all layers",
        progress=fitting.progress,
    )
    best = second if second.validation_mse < first.validation_mse else first
    return point_posterior(best, standardiser=start.standardiser, seed=fitting.seed)


METHOD: Final = Method(
    name="two_stage",
    family="one trained network",
    standing="research",
    title="Two-stage fine-tuning",
    summary=(
        "Trains the output layer from the source model's weights, then all layers. One "
        "network, no posterior."
    ),
    references=(citations.COMPARISON,),
    duration="seconds",
    cost=Cost(0.8, 4.2),
    config=TwoStageConfig,
    fit=fit,
    new_elements=True,
)
