"""Ridge regression of the output layer, toward the source's weights or toward zero.

The plain comparison of Abba (2023), section 3.5. The penalty k minimises generalised
cross-validation. Intervals are those of the conjugate normal model whose mean is the ridge
estimate: delta ~ N(0, s2 / k I) in units of the features' standard deviations, s2 ~ InvGamma(0.1,
0.1). They contain the error of the weights and of sigma, but not that of k, nor that of the
source's weights. `about` "target" discards the source's output weights and keeps its features.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import Count
from bandgap.foundation.progress import Update
from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.inference.last_layer.spectral_regression import (
    least_cross_validation,
    spectral_regression,
)
from bandgap.posterior import LastLayerPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.last_layer_problem import About, last_layer_problem
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData


@dataclass(frozen=True)
class LastLayerRidgeConfig(Scales):
    """Scales (`recalibration`), the weights that the penalty pulls to, and the draws.

    `about` "source" pulls to the source's output weights, "target" to zero. There are `chains`
    chains of `draws` draws.
    """

    about: About = "source"
    chains: Count = 4
    draws: Count = 500


def fit(
    source: SourceModel, data: TargetData, config: LastLayerRidgeConfig, fitting: Fitting
) -> LastLayerPosterior:
    """Fit the output layer to the training rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the transfer"))
    problem = last_layer_problem(
        source,
        data,
        **config.scales,
        about=config.about,
        exact_source=True,
        min_ss=1e-9,
    )
    if not problem.n_changes:
        draws = problem.without_changes(
            chains=config.chains, draws=config.draws, prior=NoisePrior(), seed=fitting.seed
        )
        return problem.posterior(*draws, seed=fitting.seed, figures={})
    regression = spectral_regression(problem.regression)
    penalty = least_cross_validation(regression)
    deltas = []
    sigma2s = []
    for chain in range(config.chains):
        delta, sigma2 = regression.draw(
            np.full(config.draws, penalty.x), np.random.default_rng([fitting.seed, chain])
        )
        deltas.append(delta)
        sigma2s.append(sigma2)
        fitting.progress(Update("drawing output layers", chain + 1, config.chains))
    figures = {
        "penalty": 1.0 / penalty.x if penalty.x > 0 else np.inf,
        "effective_parameters": penalty.degrees,
    }
    return problem.posterior(
        np.stack(deltas), np.stack(sigma2s), seed=fitting.seed, figures=figures
    )


METHOD: Final = Method(
    name="last_layer_ridge",
    family="output layer alone",
    standing="alternative",
    title="Ridge output layer",
    summary=(
        "Keeps the source model's hidden layers. Ridge regression pulls the output weights "
        "towards the source's."
    ),
    references=(
        citations.COMPARISON,
        'G. H. Golub, M. Heath and G. Wahba, "Generalized cross-validation as a method for '
        'choosing a good ridge parameter", Technometrics 21, 215-223, 1979.',
    ),
    duration="a second",
    cost=Cost(0.1, 0.1),
    config=LastLayerRidgeConfig,
    fit=fit,
)
