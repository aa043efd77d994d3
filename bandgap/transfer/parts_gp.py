"""A Gaussian process on the descriptor alone, with a length scale for each block.

The blocks of a descriptor differ: composition, neighbours of atoms, features of a pretrained
potential. One distance over all of them would be dominated by the longest block. Here the terms of
MBTR together, each block after them, and the features after the descriptor, such as electron levels
or a baseline, have separate distances and length scales (`product_kernel`). Amplitude, lengths and
noise are integrated by importance sampling.
"""

from dataclasses import dataclass
from typing import Final

from bandgap.descriptors.config import feature_terms
from bandgap.foundation import citations
from bandgap.foundation.config import Settings
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Update
from bandgap.inference.gaussian_process.product_kernel import prior_of
from bandgap.posterior import PartsGPPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.integrated_scales import Draws, Proposals, Rounds, integrated
from bandgap.transfer.shared.method import Fitting, Method, TargetData


@dataclass(frozen=True)
class PartsGPConfig(Settings):
    """Draws of the kernel's scales, proposals per round, largest number of rounds."""

    draws: Draws = 32
    proposals: Proposals = 128
    rounds: Rounds = 6


def fit(
    source: SourceModel, data: TargetData, config: PartsGPConfig, fitting: Fitting
) -> PartsGPPosterior:
    """Integrate the scales given the rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("measuring distances"))
    # The terms of MBTR are one block.
    blocks = feature_terms(source.descriptor)[max(len(source.descriptor.terms) - 1, 0) :]
    parts = [*blocks, slice(blocks[-1].stop, data.features.shape[1])]
    start = PartsGPPosterior.before_draws(
        data.features, data.gaps_eV, parts=parts, seed=fitting.seed
    )
    with few_blas_threads():
        return integrated(
            start,
            prior_of(len(start.ends))[0],
            config,
            seed=fitting.seed,
            progress=fitting.progress,
        )


METHOD: Final = Method(
    name="parts_gp",
    family="without transfer",
    standing="alternative",
    title="Gaussian process on the descriptor's parts, no transfer",
    summary=(
        "A Gaussian process with one kernel for each block of the descriptor, without the "
        "source model."
    ),
    references=(citations.GAUSSIAN_PROCESSES,),
    duration="seconds for 200 crystals; about half a minute for 1,000",
    cost=Cost(0.4, 1.2, thousand_s=30, matrices=10),
    config=PartsGPConfig,
    fit=fit,
    levels=True,
)
