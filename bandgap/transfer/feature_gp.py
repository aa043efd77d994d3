"""A Gaussian process with kernels from the source networks and one on the descriptor.

The gaps are a sum of independent Gaussian processes (`sum_kernel`):

- linear in the networks' predictions, for all of their source sets (the recalibrated source, with
  one slope for each set);
- linear in the first hidden features;
- the networks linearised in their first weight layer: the tangent kernel of Jacot, Gabriel and
  Hongler (2018), which is a Gaussian prior of these weights around the source's, as in BTL-PCP-PE,
  to first order;
- a Laplacian kernel of the descriptor, for what the source has no features for;
- with electron levels as additional features (`descriptors.electron_levels`), two more for each
  way to compute them: linear in them and smooth (`posterior.feature_gp`).

Where the source has several networks, each kernel is the mean over networks. All amplitudes,
lengths and the noise are integrated by importance sampling; everything else is exact.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation import citations
from bandgap.foundation.config import Settings
from bandgap.foundation.progress import Update
from bandgap.inference.gaussian_process.sum_kernel import prior_of
from bandgap.networks.standardise import FLOOR
from bandgap.posterior import FeatureGPPosterior, Floats
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import StatisticsChoice, standardiser_for
from bandgap.sources.views import SourceNetwork
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.integrated_scales import Draws, Proposals, Rounds, integrated
from bandgap.transfer.shared.method import Fitting, Method, TargetData


@dataclass(frozen=True)
class FeatureGPConfig(Settings):
    """Feature scales (`recalibration`), draws of the kernel's scales, proposals and rounds."""

    standardise: StatisticsChoice = "auto"
    draws: Draws = 64
    proposals: Proposals = 128
    rounds: Rounds = 6


def fit(
    source: SourceModel, data: TargetData, config: FeatureGPConfig, fitting: Fitting
) -> FeatureGPPosterior:
    """Integrate the kernel's scales given the rows (features (n, p), gaps in eV), on the CPU.

    It takes all networks together, and all of their outputs; feature scales are those of the
    target's.
    """
    fitting.progress(Update("preparing the kernels"))
    networks = []
    descriptors, levels = np.split(data.features, [source.network.n_features], axis=1)
    for heads in fitting.networks or [{fitting.head: source}]:
        scales = standardiser_for(
            heads[fitting.head],
            descriptors,
            data.gaps_eV,
            statistics=config.standardise,
            gap_scale="source",
        )
        networks.append(SourceNetwork.of_heads(list(heads.values()), scales))
    kernel_mean, kernel_scale, varying = _kernel_scales(descriptors)
    columns = np.union1d(
        np.flatnonzero(varying), np.concatenate([n.columns for n in networks])
    ).astype(np.int64)
    start = FeatureGPPosterior(
        networks=tuple(networks),
        kernel_mean=kernel_mean,
        kernel_scale=kernel_scale,
        columns=columns,
        inputs=descriptors[:, columns].astype(np.float32),
        gaps_eV=data.gaps_eV.astype(np.float64),
        theta=np.empty((0, 0)),
        levels=levels.astype(np.float64),
        size_apart=source.descriptor.size,
        seed=fitting.seed,
    )
    return integrated(
        start,
        prior_of(start.problem.kernels)[0],
        config,
        seed=fitting.seed,
        progress=fitting.progress,
    )


def _kernel_scales(features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean and scale (p,) of the descriptor over the training rows, and which features vary.

    A feature that never varies has the floor as its scale, so that a structure that differs in it
    is far away.
    """
    double_features = np.asarray(features, dtype=np.float64)
    mean = double_features.mean(axis=0)
    sd = double_features.std(axis=0)
    varying = sd > 1e-6 * sd.max(initial=0.0)
    floor = FLOOR * float(np.sqrt(np.mean(sd[varying] ** 2))) if varying.any() else 1.0
    return mean, np.hypot(sd, floor), varying


METHOD: Final = Method(
    name="feature_gp",
    family="output layer alone",
    standing="recommended",
    title="Gaussian process on the source model's features",
    summary=(
        "A Gaussian process on the source model's features and gradients and on the descriptor."
    ),
    references=(
        citations.GAUSSIAN_PROCESSES,
        'A. Jacot, F. Gabriel and C. Hongler, "Neural tangent kernel: convergence and '
        'generalization in neural networks", NeurIPS 2018.',
    ),
    duration="seconds for 200 crystals; about a minute for 1,000",
    cost=Cost(0.2, 0.5, thousand_s=10, matrices=11),
    config=FeatureGPConfig,
    fit=fit,
    together=True,
    levels=True,
    new_elements=True,
)
