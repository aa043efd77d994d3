"""PBP: transfer of all layers by probabilistic backpropagation around the source's weights.

Hernandez-Lobato and Adams (2015), with the source's weights as the means of the prior and one prior
precision for each layer. Stochastic EP (Li et al., 2015) counts every row once, where the authors
count them in every pass. Weights are independent normals, and their moments go through the network
in closed form: no draws, no learning rate. Units of a layer share uncertain inputs; with two or
more hidden layers the moments neglect this dependence.

With `zero_probabilities` it is SSPBP ("Probabilistic neural networks", thesis, 2022, chapter 3): a
message contains the probability that a unit is exactly zero. A network with biases, as every source
has, gets the same posterior up to rounding: after the next layer no unit is zero with certainty,
and a layer uses only mean and variance. SSPBP adds how often each weight is active (`inclusion`).
"""

from typing import Final

from bandgap.research.shared.moment_transfer import MomentTransferConfig, fit_by_moments
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method

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
    references=(
        'J. M. Hernandez-Lobato and R. P. Adams, "Probabilistic backpropagation for scalable '
        'learning of Bayesian neural networks", ICML 2015.',
    ),
    duration="seconds",
    cost=Cost(2.5, 10.0),
    config=MomentTransferConfig,
    fit=fit_by_moments,
    new_elements=True,
)
