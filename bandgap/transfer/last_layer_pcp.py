"""Bayesian transfer of the output layer by the penalized-complexity prior with one scale.

Abba (2023), section 3.2.2: delta ~ N(0, s2 x M), and the distance of this from the source is
exponential (`source_distance`). The thesis has M = S1 and normal means. In the regression of
section 3.5 `structure` "isotropic" (default) is M = I in units of the features' standard
deviations; "source" is M = S1, the shape of the source's own error.

The thesis does not give the rate lam there. By default, at the prior median of x changes move a
prediction of the training rows by one noise variance. The posterior of x is exact and its draws are
independent; `algorithm` "metropolis" is the thesis' random walk.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import Count, Positive
from bandgap.foundation.progress import Update
from bandgap.inference import diagnostics
from bandgap.inference.last_layer.global_scale import integrate_global_scale, metropolis
from bandgap.inference.last_layer.horseshoe import kept_share_of
from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.inference.last_layer.reduced_regression import square_root
from bandgap.inference.last_layer.spectral_regression import SpectralRegression, spectral_regression
from bandgap.posterior import Floats, LastLayerPosterior
from bandgap.posterior.protocol import PRIOR_DRAWS
from bandgap.priors.source_distance import (
    SourceDistance,
    Structure,
    isotropic_rates,
    source_distance,
)
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.last_layer_problem import (
    LastLayerProblem,
    Mode,
    converged,
    last_layer_problem,
)
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData


@dataclass(frozen=True)
class LastLayerPcpConfig(Scales):
    """Scales (`recalibration`), mode of prediction, prior of the change, and draws.

    There are `chains` chains of `draws` draws. The random walk has `warmup` steps first, and keeps
    one step in `thin`.

    Parameters
    ----------
    mode
        Form of the prediction. The paper has "delta"; "joint" because "delta" ignores the error of
        the source.
    structure
        Shape of the change. The paper has "source"; "isotropic" because the paper gives no form for
        regression, and for its normal means both are the same up to the unit.
    lam
        Rate of the prior. The paper does not state it; None because the prior median of the change
        is then one noise variance.
    algorithm
        How the scale is drawn. The paper has "metropolis"; "exact" because its draws are
        independent.
    """

    mode: Mode = "joint"
    structure: Structure = "isotropic"
    lam: Positive | None = None
    min_ss: Positive = 5.0
    algorithm: Literal["exact", "metropolis"] = "exact"
    chains: Count = 4
    draws: Count = 500
    warmup: Count = 500
    thin: Count = 5


def fit(
    source: SourceModel, data: TargetData, config: LastLayerPcpConfig, fitting: Fitting
) -> LastLayerPosterior:
    """Draw the output layer given the training rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the transfer"))
    problem = last_layer_problem(source, data, **config.scales, min_ss=config.min_ss)
    if not problem.n_changes:
        draws = problem.without_changes(
            chains=config.chains, draws=config.draws, prior=NoisePrior(), seed=fitting.seed
        )
        return problem.posterior(*draws, mode=config.mode, seed=fitting.seed, figures={})
    fitting.progress(Update("integrating the scale of the change"))
    regression, prior = scale_problem(problem, structure=config.structure, lam=config.lam)
    chains = [np.random.default_rng([fitting.seed, chain]) for chain in range(config.chains)]
    if config.algorithm == "exact":
        exact = integrate_global_scale(regression, prior, centre=prior.typical)
        log_x = [exact.draw_log_x(config.draws, rng) for rng in chains]
        log_x_draws = np.stack(log_x)
        acceptance = {}
    else:
        steps = config.draws * config.thin
        walks = [
            metropolis(
                regression, prior, start=prior.typical, warmup=config.warmup, draws=steps, rng=rng
            )
            for rng in chains
        ]
        log_x_draws = np.stack([walk[:: config.thin] for walk, _ in walks])
        acceptance = {"accept_mean": float(np.mean([share for _, share in walks]))}
    deltas = []
    sigma2s = []
    for chain, rng in enumerate(chains):
        delta, sigma2 = regression.draw(np.exp(log_x_draws[chain]), rng)
        deltas.append(delta)
        sigma2s.append(sigma2)
        fitting.progress(Update("drawing output layers", chain + 1, config.chains))
    delta = np.stack(deltas)
    figures, warnings = converged(_judge(log_x_draws) | problem.judge_fit(delta))
    figures |= acceptance | {
        "log10_x": float(log_x_draws.mean()) / math.log(10.0),
        "lam": prior.lam,
    }
    noise = np.stack(sigma2s)
    return problem.posterior(
        delta,
        noise,
        mode=config.mode,
        seed=fitting.seed,
        figures=figures,
        warnings=warnings,
        traces={"x": log_x_draws, "sigma": 0.5 * np.log(noise)},
        prior_draws={"x": prior.draw(PRIOR_DRAWS, np.random.default_rng([fitting.seed, 0x7A0]))},
        kept_share=_kept_share(problem, log_x_draws) if config.structure == "isotropic" else None,
    )


def scale_problem(
    problem: LastLayerProblem, *, structure: Structure, lam: float | None
) -> tuple[SpectralRegression, SourceDistance]:
    """Return the regression in its basis, and the prior of x.

    The distance is not defined for a source without error; then S1 = I / n1 is used, n1 the number
    of the source's rows.
    """
    has_change = problem.has_change
    p = problem.n_changes
    s1 = (
        np.eye(p) / problem.source_rows
        if problem.covariance is None
        else problem.covariance[np.ix_(has_change, has_change)]
    )
    root = square_root(s1) if structure == "source" else None
    rows = problem.rows[:, has_change] - problem.regression.mean_row[has_change]
    mean_square_move = float((rows**2 if root is None else (rows @ root) ** 2).sum()) / len(rows)
    rates = np.ones(p) if structure == "source" else isotropic_rates(s1)
    return spectral_regression(problem.regression, root=root), source_distance(
        rates, lam=lam, median_x=1.0 / mean_square_move
    )


def _kept_share(problem: LastLayerProblem, log_x: Floats) -> Floats:
    """Return the mean of 1 - kappa_j (chain, p) over draws of log x (chain, draw).

    All features have the same scale.
    """
    diagonal = np.diag(problem.regression.gram)
    return np.stack(
        [np.mean([kept_share_of(diagonal, x) for x in np.exp(chain)], axis=0) for chain in log_x]
    )


def _judge(log_x: Floats) -> dict[str, float]:
    if log_x.shape[0] < 2 or log_x.shape[1] < 4:
        return {}
    draws = log_x[..., None]
    return {
        "rhat_x": float(diagnostics.rhat(draws)[0]),
        "ess_x": float(diagnostics.ess_bulk(draws)[0]),
    }


METHOD: Final = Method(
    name="last_layer_pcp",
    family="output layer alone",
    standing="alternative",
    title="Bayesian output layer, penalized complexity",
    summary=(
        "Keeps the source model's hidden layers. All output weights may change; the data "
        "decide how far."
    ),
    references=(citations.METHOD,),
    duration="a second",
    cost=Cost(0.3, 0.3),
    config=LastLayerPcpConfig,
    fit=fit,
)
