"""PBP: transfer of all layers by probabilistic backpropagation around the source's weights.

Hernandez-Lobato and Adams (2015), with the source's weights as the means of the prior and one prior
precision for each layer. Stochastic EP (Li et al., 2015) counts every row once, where the authors
count them in every pass. Weights are independent normals, and their moments go through the network
in closed form: no draws, no learning rate. Units of a layer share uncertain inputs; with two or
more hidden layers the moments neglect this dependence.
"""

from functools import partial
from typing import Final

from bandgap.research.shared.moment_transfer import MomentTransferConfig, fit_by_moments
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method

fit: Final = partial(fit_by_moments, zero_probabilities=False)

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
    cost=Cost(2.5, 10.0),
    config=MomentTransferConfig,
    fit=fit,
    new_elements=True,
)
