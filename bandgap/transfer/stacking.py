"""Stacking: three methods without transfer, weighted by their predictions of held-out structures.

No method without transfer is the best on every set. Kernel ridge and boosted trees are the best on
organic crystals, a Gaussian process where descriptors contain what matters. Here a Gaussian process
on the descriptor's blocks (`parts_gp`), kernel ridge and gradient boosting are fitted to all rows.
Each gives the density of every held-out row. The weights of a pool of all three, with one factor on
its spread, maximise the probability of these rows (`inference.stacking`).

For the Gaussian process held-out rows are left out of its Cholesky factor (Rasmussen and Williams,
2006, section 5.4.2), and the draws of its scales are reweighted. For the other two they are those
of their folds.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import Positive, Settings
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Update
from bandgap.inference.stacking import SPREADS, fit_pool
from bandgap.posterior import ConformalPosterior, Diagnostics, PartsGPPosterior, PooledPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer import gradient_boosting, kernel_ridge, parts_gp
from bandgap.transfer.gradient_boosting import GradientBoostingConfig
from bandgap.transfer.kernel_ridge import KernelRidgeConfig
from bandgap.transfer.parts_gp import PartsGPConfig
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import WITHOUT_TRANSFER, Fitting, Method, TargetData


@dataclass(frozen=True)
class StackingConfig(Settings):
    """Settings of the three methods, and the prior of weights and spread.

    `prior_rows` is the number of rows that the prior of the weights counts as; `spread_sd` is the
    prior standard deviation of the log spread.
    """

    parts_gp: PartsGPConfig = PartsGPConfig()
    kernel_ridge: KernelRidgeConfig = KernelRidgeConfig()
    gradient_boosting: GradientBoostingConfig = GradientBoostingConfig()
    prior_rows: Positive = 2.0
    spread_sd: Positive = 0.05


def fit(
    source: SourceModel, data: TargetData, config: StackingConfig, fitting: Fitting
) -> PooledPosterior:
    """Fit the three methods to rows (features (n, p), gaps in eV) and weight them, on the CPU."""
    process = parts_gp.fit(source, data, config.parts_gp, fitting)
    ridge = kernel_ridge.fit(source, data, config.kernel_ridge, fitting)
    trees = gradient_boosting.fit(source, data, config.gradient_boosting, fitting)
    methods = (parts_gp.METHOD, kernel_ridge.METHOD, gradient_boosting.METHOD)
    members: tuple[PartsGPPosterior | ConformalPosterior, ...] = (process, ridge, trees)
    fitting.progress(Update("weighing the methods"))
    with few_blas_threads():
        left_out = np.stack([m.left_out_log_densities(SPREADS) for m in members], axis=1)
    pool = fit_pool(
        left_out, spreads=SPREADS, prior_rows=config.prior_rows, spread_sd=config.spread_sd
    )
    names = tuple(method.name for method in methods)
    figures = {f"weight_{name}": float(w) for name, w in zip(names, pool.weights, strict=True)}
    figures |= {"spread": pool.spread, "log_density_left_out": pool.mean_log_density}
    for name, member in zip(names, members, strict=True):
        figures |= {
            f"{figure}_{name}": value for figure, value in member.diagnostics.figures.items()
        }
    warnings = dict.fromkeys(
        f"{method.title}: {text}"
        for method, m in zip(methods, members, strict=True)
        for text in m.diagnostics.warnings
    )
    return PooledPosterior(
        members,
        names,
        tuple(pool.weights.tolist()),
        pool.spread,
        Diagnostics(figures, tuple(warnings)),
    )


METHOD: Final = Method(
    name="stacking",
    family=WITHOUT_TRANSFER,
    standing="recommended",
    title="Three methods without transfer, weighted",
    summary=(
        "Combines a Gaussian process, kernel ridge and boosted trees, weighted by their "
        "predictions of held-out crystals."
    ),
    references=(
        'Y. Yao, A. Vehtari, D. Simpson and A. Gelman, "Using stacking to average Bayesian '
        'predictive distributions", Bayesian Anal. 13, 917-1007, 2018.',
        citations.JACKKNIFE,
    ),
    duration="about 10 seconds for 200 crystals, a minute for 1,000",
    cost=Cost(6, 9, thousand_s=60, matrices=10),
    config=StackingConfig,
    fit=fit,
    levels=True,
)
