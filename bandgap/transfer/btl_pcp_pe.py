r"""BTL-PCP-PE: Bayesian transfer of all layers with a penalized-complexity prior.

Abba (2023), sections 2.3.3 and 2.4: the prior is centred at the source's weights (`point_prior`),
and the posterior of all weights and scales is sampled by Hamiltonian Monte Carlo.
"""

from dataclasses import dataclass, field
from typing import Final

import torch

from bandgap.foundation import citations
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Update
from bandgap.inference.network.pcp_scales import point_estimate_scales
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import whiten
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.point_prior import PointPriorConfig, point_prior_problem
from bandgap.transfer.shared.sampled_network import (
    sample_posterior,
    with_figures,
    with_sensitivity,
)


@dataclass(frozen=True)
class BtlPcpPeConfig(PointPriorConfig):
    """Prior, scales (`recalibration`) and noise of `PointPriorConfig`, and the sampler."""

    sampler: SamplerConfig = field(default_factory=SamplerConfig)


def fit(
    source: SourceModel, data: TargetData, config: BtlPcpPeConfig, fitting: Fitting
) -> NetworkPosterior:
    """Sample all weights and scales given the training rows (features (n, p), gaps in eV)."""
    fitting.progress(Update("preparing the transfer"))
    problem = point_prior_problem(source, data, config, seed=fitting.seed)
    rows = problem.rows
    torch_device = choose_device(fitting.device)
    posterior = sample_posterior(
        whiten(problem.layers, rows.x, rows.y, device=torch_device, dtype=torch.float32),
        point_estimate_scales(
            problem.alpha.to(torch_device),
            lam=problem.lam,
            noise_b=rows.noise_b(config.noise_share),
            c0=config.c0,
        ),
        rows.standardiser,
        fitting,
        sampler=config.sampler,
    )
    return with_sensitivity(with_figures(posterior, lam=problem.lam), problem.alpha.mean(0))


METHOD: Final = Method(
    name="btl_pcp_pe",
    family="all layers, Bayesian",
    standing="recommended",
    title="Bayesian transfer, penalized complexity",
    summary=(
        "Samples all layers around the source model. The data decide how far each layer moves."
    ),
    references=(citations.METHOD,),
    duration="about 1 minute for 200 crystals on 2 cores",
    cost=Cost(35, 60, coordinates="partially centred"),
    config=BtlPcpPeConfig,
    fit=fit,
    new_elements=True,
)
