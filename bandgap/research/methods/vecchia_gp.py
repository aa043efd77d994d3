"""A Gaussian process on the source model's last hidden features, for many labels.

Gap = beta_0 + beta_1 f_source + Z(features) + noise, Z with a Matern kernel in the distance of the
features (a deep kernel with frozen features). Up to 1,000 rows the likelihood is exact and its
scales are sampled by Metropolis. Above, the likelihood is Vecchia's (1988), in which every crystal
depends on its 60 nearest preceding ones. The scales are then sampled by stochastic-gradient
Langevin steps, whose cost does not grow with the rows. Smoothness is the most probable of 0.5, 1.5
and 2.5, or sampled too (`process` with nu "free"). Other samplers of `GPConfig` serve comparisons.
"""

from dataclasses import dataclass, field
from typing import Final

from bandgap.foundation.progress import Update
from bandgap.research.posteriors.deep_kernel import DeepKernelPosterior
from bandgap.research.shared.deep_kernel import rows_of, with_draws
from bandgap.research.vecchia.gp import GPConfig
from bandgap.research.vecchia.gp import fit as fit_process
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData


@dataclass(frozen=True)
class VecchiaGPConfig(Scales):
    """Scales (`recalibration`) and the process.

    `GPConfig` has smoothness, likelihood, neighbours, sampler and engine.
    """

    process: GPConfig = field(default_factory=GPConfig)


def fit(
    source: SourceModel, data: TargetData, config: VecchiaGPConfig, fitting: Fitting
) -> DeepKernelPosterior:
    """Sample the scales given the training rows (features (n, p), gaps in eV).

    Vecchia's likelihood runs on the device, the exact one on the CPU.
    """
    fitting.progress(Update("preparing the kernel"))
    rows = rows_of(source, data, config, seed=fitting.seed)
    process = fit_process(
        rows.points,
        rows.gaps,
        config.process,
        covariates=rows.trend,
        seed=fitting.seed,
        device=fitting.device,
        progress=fitting.progress,
        checkpoint=fitting.checkpoint,
    )
    figures = {
        "smoothness": process.nu,
        "log_density": process.mode.value,
        **process.traces.figures,
    }
    names = ["sigma2", "rho", *(["nu"] if config.process.nu == "free" else []), "tau2"]
    return with_draws(
        rows,
        theta=process.theta,
        beta=process.beta,
        traces=process.traces.eta,
        names=names,
        predict_from=process.predict_from,
        figures=figures,
        warnings=process.traces.warnings,
        precision=process.traces.precision_beta,
    )


METHOD: Final = Method(
    name="vecchia_gp",
    family="output layer alone",
    standing="research",
    title="Gaussian process on the source's last layer, for many labels",
    summary=(
        "A Gaussian process on the source model's last hidden features, for thousands of crystals."
    ),
    references=(
        'A. V. Vecchia, "Estimation and model identification for continuous spatial processes", '
        "J. R. Stat. Soc. B 50, 297-312, 1988.",
        'J. Guinness, "Permutation and grouping methods for sharpening Gaussian process '
        'approximations", Technometrics 60, 415-429, 2018.',
    ),
    duration="seconds for 500 crystals; about half a minute for 5,000 and for 15,000",
    cost=Cost(2, 4),
    config=VecchiaGPConfig,
    fit=fit,
)
