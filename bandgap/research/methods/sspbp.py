"""SSPBP: probabilistic backpropagation with the probability that each unit is exactly zero.

"Probabilistic neural networks" (thesis, 2022), chapter 3, with the source as prior as in `pbp`. A
network with biases, as every source has, gets the posterior of `pbp` up to rounding: after the next
layer no unit is zero with certainty, and a layer uses only mean and variance. SSPBP adds how often
each unit, and so each weight, is active (`inclusion`).
"""

from functools import partial
from typing import Final

from bandgap.research.shared.moment_transfer import MomentTransferConfig, fit_by_moments
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method

fit: Final = partial(fit_by_moments, zero_probabilities=True)

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
    cost=Cost(2.5, 10.0),
    config=MomentTransferConfig,
    fit=fit,
    new_elements=True,
)
