"""SSPBP: probabilistic backpropagation whose messages say with which probability a unit is exactly zero.

"Probabilistic neural networks" (thesis, 2022), chapter 3, with the source as prior as in `pbp`. A network with biases,
as every source has, gets the posterior of `pbp` up to rounding: behind a layer no unit is surely zero, and the layer
asks for mean and variance alone. What is new is how often each unit, and so each weight, takes part (`inclusion`).
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior import FactorisedNetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method, TargetData
from bandgap.transfer.shared.moment_transfer import Passes, fit_by_moments


@dataclass(frozen=True)
class SspbpConfig(Passes):
    """Scales (`recalibration`), prior variances to choose from, and passes (`moment_transfer`)."""


def fit(
    source: SourceModel,
    data: TargetData,
    config: SspbpConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> FactorisedNetworkPosterior:
    """Move normal weights by the moments of the target's training rows (features (n, p), gaps in eV)."""
    del device
    return fit_by_moments(source, data, config, atoms=True, seed=seed, progress=progress)


METHOD: Final = Method(
    name="sspbp",
    family="all layers, Bayesian",
    standing="research",
    title="Probabilistic backpropagation, units off (SSPBP)",
    summary=(
        "As probabilistic backpropagation, and estimates how often each weight is active. "
        "Neither more accurate nor faster."
    ),
    duration="seconds",
    cost=Cost(0.1, 0.4),
    config=SspbpConfig,
    fit=fit,
    new_elements=True,
)
