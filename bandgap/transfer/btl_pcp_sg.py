r"""BTL-PCP-SG: the posterior of `btl_pcp_pe` from mini-batches, for thousands of labelled structures.

The same prior, likelihood and centre (Abba, 2023; `btl_pcp_pe`), sampled by stochastic-gradient MCMC
(`inference/stochastic_gradient`): a step sees `batch_size` rows and costs no more at 100,000 rows than at 1,000, as the
prior of the global scale, a function of means over all rows, takes them over some hundreds of weighted ones where there
are more than 8,000 (`priors/row_quadrature`). Chains start near a mode, each at one of its own, and move in frames in
which weights are about independent and of unit width (`network_frames`). SGHMC injects less noise by what a batch's
gradient has, entry by entry; what is left of that widens the posterior along the stiffest directions.

On QM9 with the demo's source, 8,000 rows and eight minutes of a slow core, medians of three splits that no setting was
chosen on: RMSE 0.206 eV, CRPS 0.1092, 90 % intervals covered 93 %, R-hat of predictions 1.13; an ensemble of some 130
fine-tunings in the same time 0.207, 0.1094, 88 %, 33 to 85 networks of `nptl` 0.215, 0.114, 89 %.

With 500 rows its predictive means differ from those of `btl_pcp_pe` by 0.14 and 0.08 posterior standard deviations, 1.1
and 0.75 Monte-Carlo errors (two splits, medians over molecules), sd ratio 1.08 and 0.98. On 2,000 rows of (6, 4)
networks near the source's, where HMC's chains agree, it is 0.05 to 0.07, ratio 0.98 to 1.00 (`tests/statistical`).

With few rows of little noise the posterior bends up to a hundred times as much away from the modes as there: up to 256
rows, frames are found where chains have been while they settled (`stochastic_start`). On 353 lead-iodide
perovskites with HSE gaps, from a source on PBE gaps, it errs by 0.246 eV with 100 and 0.184 with 250 labels (five
splits); `btl_pcp_pe`, which is made for so few, by 0.241 and 0.168.

A row that alone holds a direction of the weights is held by being in every batch (`stochastic_start.most_bent`): in one
batch of sixteen it was not, and chains ran away after some thousands of iterations.
"""

from dataclasses import dataclass, field
from typing import Final

import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.pcp_scales import condensed, point_estimate_scales
from bandgap.inference.network.whitened_network import whiten
from bandgap.posterior import NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.btl_pcp_pe import PointPrior, check_prior, problem_of
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method, TargetData
from bandgap.transfer.shared.sampled_network import with_figures, with_sensitivity
from bandgap.transfer.shared.stochastic_network import sample_stochastically
from bandgap.transfer.shared.stochastic_start import SgSampler


@dataclass(frozen=True)
class BtlPcpSgConfig(PointPrior):
    """Prior, scales (`recalibration`), noise and sampler: those of `btl_pcp_pe` but for the sampler.

    `prune_share` above 0 sends this share of every hidden layer's weights, biases left out, back to the source's: those
    that moved least beside their posterior's width, again and again while chains warm up, after which they may return.
    Those of the last time stay there, each chain's its own, and the rest is sampled: the posterior GIVEN these weights.
    Frames are then not turned, so that a weight is one entry of a position; the first layer is sampled in coordinates
    of the space that the training rows span, and there it is coordinates that go back. With 8,000 molecules of QM9,
    shares of 0, 0.3, 0.5 and 0.7 gave RMSE 0.206, 0.243, 0.275 and 0.314 eV, R-hat of predictions 1.1, 1.3, 1.8, 1.9,
    and stored 17, 13, 10 and 7 MB; 4,000 predictions took 2.3, 1.2, 1.9 and 1.3 s.
    """

    prune_share: float = 0.0
    sampler: SgSampler = field(default_factory=SgSampler)

    def __post_init__(self) -> None:
        check_prior(
            "btl_pcp_sg", lam=self.lam, corr=self.corr, c0=self.c0, noise_share=self.noise_share
        )
        if not 0 <= self.prune_share < 1:
            raise ConfigError(
                f"btl_pcp_sg: prune_share = {self.prune_share}. Accepted: 0 to below 1."
            )


def fit(
    source: SourceModel,
    data: TargetData,
    config: BtlPcpSgConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> NetworkPosterior:
    """Sample the posterior of all weights and scales given the target's training rows (features (n, p), gaps in eV)."""
    progress(Update("preparing the transfer"))
    problem = problem_of(source, data, config, seed=seed)
    rows, alpha, lam = problem.rows, problem.alpha, problem.lam
    net = whiten(problem.layers, rows.x, rows.y, device=choose_device(device), dtype=torch.float32)
    prior = condensed(
        point_estimate_scales(
            alpha, lam=lam, noise_b=rows.noise_b(config.noise_share), c0=config.c0
        )
    )
    posterior = sample_stochastically(
        net, prior, rows.standardiser, sampler=config.sampler, prune_share=config.prune_share,
        seed=seed, progress=progress, checkpoint=checkpoint,
    )  # fmt: skip
    return with_sensitivity(with_figures(posterior, lam=lam), alpha.mean(0))


METHOD: Final = Method(
    name="btl_pcp_sg",
    family="all layers, Bayesian",
    standing="research",
    title="Bayesian transfer by mini-batches",
    summary=(
        "Samples the posterior of the transfer with the penalized complexity prior, a few "
        "rows at a time, for thousands of labels."
    ),
    duration="about 4 minutes for any number of crystals; more with a wide source",
    cost=Cost(220, 220, sampler="mini-batches"),
    config=BtlPcpSgConfig,
    fit=fit,
    resumable=fit,
    new_elements=True,
)
