r"""BNN: a Bayesian network of the source's shape, fitted to the target alone.

Abba (2023), section 2.5: the prior is centred at zero (`independent_scales`). It is the reference
for what Bayesian transfer gains. From the source it takes only the network's shape and the
descriptor. Features and gaps are standardised by the target's training rows.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch

from bandgap.foundation import citations
from bandgap.foundation.progress import Update
from bandgap.networks.perceptron import layers_of
from bandgap.networks.standardise import fit_standardiser
from bandgap.posterior import NetworkPosterior
from bandgap.research.shared.independent_scales import (
    IndependentScalesConfig,
    sample_independent_scales,
)
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.sampled_network import standardised


@dataclass(frozen=True)
class BnnConfig(IndependentScalesConfig):
    """Noise and sampler."""


def fit(
    source: SourceModel, data: TargetData, config: BnnConfig, fitting: Fitting
) -> NetworkPosterior:
    """Sample all weights and scales given the training rows (features (n, p), gaps in eV)."""
    fitting.progress(Update("preparing the network"))
    posterior = sample_independent_scales(
        [torch.zeros_like(layer) for layer in layers_of(source.params)],
        standardised(data, fit_standardiser(data.features, data.gaps_eV)),
        config,
        fitting,
    )
    return replace(posterior, layer_weights=None, tau=None)


METHOD: Final = Method(
    name="bnn",
    family="without transfer",
    standing="research",
    title="Bayesian network without transfer",
    summary=(
        "Samples all layers of a new network with the labelled crystals only. Shows what a "
        "transfer gains."
    ),
    references=(citations.COMPARISON,),
    duration="about 2 minutes for 200 crystals on 2 cores",
    cost=Cost(55, 110, coordinates="partially centred"),
    config=BnnConfig,
    fit=fit,
    new_elements=True,
)
