r"""BTL-BNN: Bayesian transfer of all layers; the prior of its scales does not depend on the source.

Abba (2023), section 2.5: the prior is centred at the source's weights (`independent_scales`).
BTL-PCP differs in the prior of the scales alone. tau and c of this posterior are the sum of the
tau_l and each layer's share of it.
"""

from dataclasses import dataclass
from typing import Final

from bandgap.foundation import citations
from bandgap.foundation.progress import Update
from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.posterior import NetworkPosterior
from bandgap.research.shared.independent_scales import (
    IndependentScalesConfig,
    sample_independent_scales,
)
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.sampled_network import rows_for_source, with_sensitivity


@dataclass(frozen=True)
class BtlBnnConfig(IndependentScalesConfig, Scales):
    """Scales (`recalibration`), noise and sampler."""


def fit(
    source: SourceModel, data: TargetData, config: BtlBnnConfig, fitting: Fitting
) -> NetworkPosterior:
    """Sample all weights and scales given the training rows (features (n, p), gaps in eV)."""
    fitting.progress(Update("preparing the transfer"))
    rows = rows_for_source(source, data, **config.scales)
    posterior = sample_independent_scales(layers_of(source.params), rows, config, fitting)
    return with_sensitivity(posterior, layer_gradient_norms(source.params, rows.x).mean(0))


METHOD: Final = Method(
    name="btl_bnn",
    family="all layers, Bayesian",
    standing="research",
    title="Bayesian transfer, uninformative scales",
    summary=(
        "Samples all layers around the source model. The scales of its prior do not depend on"
        " the source."
    ),
    references=(citations.COMPARISON,),
    duration="about 2 minutes for 200 crystals on 2 cores",
    cost=Cost(55, 110, coordinates="partially centred"),
    config=BtlBnnConfig,
    fit=fit,
    new_elements=True,
)
