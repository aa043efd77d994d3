"""PBP: transfer of all layers by probabilistic backpropagation, the source's weights being the means of the prior.

Hernandez-Lobato and Adams (2015) with the source as prior, one prior precision a layer; rows are counted once by
stochastic EP (Li et al. 2015), where the authors count them in every pass. Weights are independent normals, whose
moments go through the network in closed form: no draws, no learning rate, seconds on one core. An approximation: units
of a layer share uncertain inputs, which the moments of two and more hidden layers leave out.
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
class PbpConfig(Passes):
    """Scales (`recalibration`), prior variances to choose from, and passes (`moment_transfer`)."""


def fit(
    source: SourceModel,
    data: TargetData,
    config: PbpConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> FactorisedNetworkPosterior:
    """Move normal weights by the moments of the target's training rows (features (n, p), gaps in eV)."""
    del device
    return fit_by_moments(source, data, config, atoms=False, seed=seed, progress=progress)


METHOD: Final = Method(
    name="pbp",
    family="all layers, Bayesian",
    standing="research",
    title="Probabilistic backpropagation (PBP)",
    summary=(
        "A fast approximation with independent normal distributions for all weights. The "
        "Gaussian process on the source model's features had lower errors on every set "
        "tested."
    ),
    duration="seconds",
    cost=Cost(0.1, 0.4),
    config=PbpConfig,
    fit=fit,
    new_elements=True,
)
