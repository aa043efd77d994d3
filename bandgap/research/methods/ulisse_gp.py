"""An exact Gaussian process on the source's last hidden features, by randomly truncated solves.

The model is that of `vecchia_gp`. Its likelihood is exact, and no matrix is factorised while the
scales are sampled: the gradient comes from conjugate gradients that end after a random number of
terms, without bias (ULISSE). It needs no neighbours above 1,000 crystals; below, `vecchia_gp` gives
the same result faster. The trend is drawn given the scales by complete solves, at some iterations.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bandgap.foundation.config import Count
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Update
from bandgap.research.posteriors.deep_kernel import DeepKernelPosterior
from bandgap.research.shared.deep_kernel import rows_of, with_draws
from bandgap.research.unbiased_solves.langevin import (
    Problem,
    UlisseConfig,
    sample_by_smaller_steps,
    theta_at,
)
from bandgap.research.vecchia.gp import ALL_ROWS, GPConfig, typical_scales, weak_priors
from bandgap.research.vecchia.gp import fit as fit_process
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData

START: Final = GPConfig(likelihood="vecchia", neighbours=20, sampler="none")
PREDICT_FROM = 200


@dataclass(frozen=True)
class UlisseGPConfig(Scales):
    """Scales (`recalibration`), chains of unbiased solves, and number of draws for predictions."""

    solves: UlisseConfig = field(default_factory=UlisseConfig)
    keep: Count = 16


def fit(
    source: SourceModel, data: TargetData, config: UlisseGPConfig, fitting: Fitting
) -> DeepKernelPosterior:
    """Sample the scales given the rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the kernel"))
    rows = rows_of(source, data, config, seed=fitting.seed)
    first = fit_process(
        rows.points,
        rows.gaps,
        START,
        covariates=rows.trend,
        seed=fitting.seed,
        device="cpu",
        progress=fitting.progress,
    )
    (start,) = first.thetas
    priors = weak_priors(typical_scales(rows.points, rows.trend, rows.gaps))
    problem = Problem(rows.points, rows.trend, rows.gaps, priors)
    with few_blas_threads():
        draws = sample_by_smaller_steps(
            problem,
            start,
            config.solves,
            seed=fitting.seed,
            progress=fitting.progress,
            checkpoint=fitting.checkpoint,
        )
    chains, length = draws.eta.shape[:2]
    kept_iterations = (
        np.linspace(0, length - 1, max(1, min(length, config.keep // chains)))
        .round()
        .astype(np.int64)
    )
    theta = [[theta_at(eta, start) for eta in chain[kept_iterations]] for chain in draws.eta]
    if draws.precision_beta is None:
        rng = np.random.default_rng([fitting.seed, 0xBE7A])
        rank = config.solves.rank
        beta = np.array(
            [[problem.draw_trend(scales, rng, rank=rank) for scales in chain] for chain in theta]
        )
    else:
        beta = draws.beta
    return with_draws(
        rows,
        theta=np.array(theta),
        beta=beta,
        traces=draws.eta,
        names=["sigma2", "rho", "tau2"],
        predict_from=PREDICT_FROM if len(rows.gaps) > ALL_ROWS else 0,
        figures={"smoothness": start.nu, **draws.figures},
        warnings=(*first.traces.warnings, *draws.warnings),
        precision=draws.precision_beta,
    )


METHOD: Final = Method(
    name="ulisse_gp",
    family="output layer alone",
    standing="research",
    title="Gaussian process on the source's last layer, by unbiased solves",
    summary=(
        "As the Gaussian process on the source's last layer for many labels, with linear "
        "solves that are truncated at random. A study: slower at every size tested."
    ),
    references=(
        'M. Filippone and R. Engler, "Enabling scalable stochastic gradient-based inference for '
        'Gaussian processes by employing the Unbiased LInear System SolvEr (ULISSE)", ICML 2015.',
    ),
    duration="about 20 seconds for 500 crystals, four times that for twice as many",
    cost=Cost(0.6, 5),
    config=UlisseGPConfig,
    fit=fit,
)
