"""Bayesian transfer of the output layer by the horseshoe: few weights change much, most hardly.

Abba (2023), sections 3.2.1 and 3.5, eqs. 3.22 and 3.23: delta_j ~ N(0, s2 tau^2 lambda_j^2),
lambda_j and tau half-Cauchy, with fixed hidden layers and source output weights
(`last_layer_problem`). `mode` "delta" is the thesis' beta2 = b + delta. "joint" (default) also
draws the source's error given the target's rows, which is the consistent form.
"""

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import Positive
from bandgap.foundation.progress import Update
from bandgap.inference.last_layer.horseshoe import HorseshoeConfig, sample_horseshoe
from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.posterior import LastLayerPosterior
from bandgap.posterior.protocol import PRIOR_DRAWS
from bandgap.priors.horseshoe import draw_global_scale
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.last_layer_problem import Mode, converged, last_layer_problem
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData


@dataclass(frozen=True)
class LastLayerHorseshoeConfig(Scales):
    """Scales (`recalibration`), mode, smallest sum of squares of a feature, and sampler.

    Parameters
    ----------
    mode
        Form of the prediction. The paper has "delta"; "joint" because "delta" ignores the error of
        the source.
    min_ss
        Smallest sum of squares of a feature over the training rows at which its weight may change.
        The paper does not state it; 5 because the posterior mean of a weight that the rows hardly
        determine does not exist.
    sampler
        Settings of the chains, and of the prior's global scale.
    """

    mode: Mode = "joint"
    min_ss: Positive = 5.0
    sampler: HorseshoeConfig = field(default_factory=HorseshoeConfig)


def fit(
    source: SourceModel, data: TargetData, config: LastLayerHorseshoeConfig, fitting: Fitting
) -> LastLayerPosterior:
    """Sample the output layer given the training rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the transfer"))
    problem = last_layer_problem(source, data, **config.scales, min_ss=config.min_ss)
    sampler = config.sampler
    if not problem.n_changes:
        draws = problem.without_changes(
            chains=sampler.chains,
            draws=sampler.kept_of_chain,
            prior=NoisePrior(),
            seed=fitting.seed,
        )
        return problem.posterior(*draws, mode=config.mode, seed=fitting.seed, figures={})
    sampled, info = sample_horseshoe(
        problem.regression, config=sampler, seed=fitting.seed, progress=fitting.progress
    )
    figures, warnings = converged(info.figures() | problem.judge_fit(sampled.delta))
    figures |= {"log10_tau": float(info.log_tau.mean()) / math.log(10.0)}
    return problem.posterior(
        sampled.delta,
        sampled.sigma2,
        mode=config.mode,
        seed=fitting.seed,
        figures=figures,
        warnings=warnings,
        traces={"tau": info.log_tau, "sigma": 0.5 * info.log_sigma2},
        prior_draws={
            "tau": draw_global_scale(
                PRIOR_DRAWS,
                np.random.default_rng([fitting.seed, 0x7A0]),
                log_range=sampler.log_range(problem.n_changes),
            )
        },
        kept_share=info.kept_share,
    )


METHOD: Final = Method(
    name="last_layer_horseshoe",
    family="output layer alone",
    standing="alternative",
    title="Bayesian output layer, horseshoe",
    summary=(
        "Keeps the source model's hidden layers. A few output weights may change much, the "
        "others hardly."
    ),
    references=(
        citations.METHOD,
        'C. M. Carvalho, N. G. Polson and J. G. Scott, "The horseshoe estimator for sparse '
        'signals", Biometrika 97, 465-480, 2010.',
    ),
    duration="seconds with 64 hidden units; about a minute with 512",
    cost=Cost(5, 5),
    config=LastLayerHorseshoeConfig,
    fit=fit,
)
