"""BTL-PCP-SG: the posterior of `btl_pcp_pe` from mini-batches, for thousands of structures.

The prior, likelihood and centre are those of `btl_pcp_pe` (Abba, 2023; `point_prior`). The sampler
is stochastic-gradient MCMC (`research/stochastic_gradient`): a step uses `batch_size` rows and
costs no more at 100,000 rows than at 1,000. The prior of the global scale is a function of means
over all rows; above 8,000 rows these are means over some hundreds of weighted rows
(`priors/row_quadrature`).

Chains start near modes, each at a different one. They move in frames in which weights are about
independent and of unit width (`network_frames`). SGHMC injects less noise by the noise of a batch's
gradient, entry by entry. What remains of the batch noise widens the posterior along the stiffest
directions.

With few rows of little noise the curvature of the posterior is up to a hundred times as large away
from the modes as at them. Up to 256 rows, frames are therefore computed at earlier positions of the
settling chains (`stochastic_start`). A row that alone determines a direction of the weights is in
every batch (`stochastic_start.rows_of_largest_curvature`); otherwise chains diverge after some
thousands of iterations.
"""

from dataclasses import dataclass, field
from typing import Final

import torch

from bandgap.foundation import citations
from bandgap.foundation.config import ShareBelowOne
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Update
from bandgap.inference.network.pcp_scales import condensed, point_estimate_scales
from bandgap.inference.network.whitened_network import whiten
from bandgap.posterior import NetworkPosterior
from bandgap.research.shared.stochastic_network import sample_stochastically
from bandgap.research.shared.stochastic_start import SgSampler
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, TargetData
from bandgap.transfer.shared.point_prior import PointPriorConfig, point_prior_problem
from bandgap.transfer.shared.sampled_network import with_figures, with_sensitivity


@dataclass(frozen=True)
class BtlPcpSgConfig(PointPriorConfig):
    """Prior, scales (`recalibration`) and noise of `btl_pcp_pe`, pruning, and the sampler.

    `prune_share` above 0 returns this share of every hidden layer's weights, biases excepted, to
    the source's weights: those that moved least relative to their posterior's width. This is
    repeated while chains warm up, and such weights may move again. Those of the last time stay at
    the source's weights, in each chain its own set, and the other weights are sampled: the
    posterior GIVEN these weights. Frames are then not rotated, so that a weight is one entry of a
    position. The first layer is sampled in coordinates of the space that the training rows span,
    and there coordinates are pruned.
    """

    prune_share: ShareBelowOne = 0.0
    sampler: SgSampler = field(default_factory=SgSampler)


def fit(
    source: SourceModel, data: TargetData, config: BtlPcpSgConfig, fitting: Fitting
) -> NetworkPosterior:
    """Sample all weights and scales given the training rows (features (n, p), gaps in eV)."""
    fitting.progress(Update("preparing the transfer"))
    problem = point_prior_problem(source, data, config, seed=fitting.seed)
    rows = problem.rows
    net = whiten(
        problem.layers, rows.x, rows.y, device=choose_device(fitting.device), dtype=torch.float32
    )
    prior = point_estimate_scales(
        problem.alpha,
        lam=problem.lam,
        noise_b=rows.noise_b(config.noise_share),
        c0=config.c0,
    )
    posterior = sample_stochastically(
        net,
        condensed(prior),
        rows.standardiser,
        fitting,
        sampler=config.sampler,
        prune_share=config.prune_share,
    )
    return with_sensitivity(with_figures(posterior, lam=problem.lam), problem.alpha.mean(0))


METHOD: Final = Method(
    name="btl_pcp_sg",
    family="all layers, Bayesian",
    standing="research",
    title="Bayesian transfer by mini-batches",
    summary=(
        "Samples the posterior of the transfer with the penalized complexity prior, a few "
        "rows at a time, for thousands of labels."
    ),
    references=(citations.METHOD, citations.SGHMC),
    duration="about 4 minutes for any number of crystals; more with a wide source",
    cost=Cost(220, 220),
    config=BtlPcpSgConfig,
    fit=fit,
    new_elements=True,
)
