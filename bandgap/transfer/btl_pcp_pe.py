r"""BTL-PCP-PE: Bayesian transfer of all layers with a penalized-complexity prior around the source's weights.

Abba (2023), sections 2.3.3 and 2.4, eqs. 2.6 to 2.8: theta_l ~ N(theta_hat_l, tau c_l I), c ~ Dirichlet(c0, ..., c0),
tau | c, sigma with density lam exp(-lam d(tau)) d'(tau), d(tau)^2 = mean over training inputs of
phi(tau c'alpha(x) / sigma^2), y ~ N(f(x; theta), sigma^2), sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the
variance of the training gaps. lam = 1 by default: as accurate as the thesis' correlation rule (`priors/correlation`)
and better covering where the source fit has error. theta_hat is the source's point estimate or the mean of its
variational posterior.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.pcp_scales import point_estimate_scales
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import whiten
from bandgap.networks.perceptron import layer_gradient_norms, layers_of
from bandgap.posterior import NetworkPosterior
from bandgap.priors.correlation import OutputVariance, rate_for_correlation
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Method, Scales, TargetData
from bandgap.transfer.shared.sampled_network import (
    Centre,
    TargetRows,
    centred,
    rows_for_source,
    sample_posterior,
    with_figures,
    with_sensitivity,
)

Rate = float | Literal["corr"]


class Correlation(Protocol):
    """What the correlation rule asks of a method's settings."""

    @property
    def corr(self) -> float: ...

    @property
    def c0(self) -> float: ...


@dataclass(frozen=True)
class PointPrior(Scales):
    """The prior about the source's weights, scales (`recalibration`) and noise, whatever samples the posterior.

    `lam` is the rate of the prior on the distance, or "corr": then the one at which the network's output has the
    correlation `corr` with a label. `c0` is the Dirichlet parameter of the layer weights.
    """

    lam: Rate = 1.0
    corr: float = 0.5
    c0: float = 1.0
    centre: Centre = "point"
    noise_share: float = 0.2


@dataclass(frozen=True)
class BtlPcpConfig(PointPrior):
    """Prior, scales (`recalibration`) and noise of `PointPrior`, and the sampler."""

    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __post_init__(self) -> None:
        check_prior(
            "btl_pcp_pe", lam=self.lam, corr=self.corr, c0=self.c0, noise_share=self.noise_share
        )


def check_prior(
    method: str,
    *,
    lam: Rate | str,
    corr: float,
    c0: float,
    noise_share: float,
    rules: Sequence[str] = ("corr",),
) -> None:
    """Raise ConfigError on settings that no prior of a BTL-PCP method can have; `rules` are words that lam may be."""
    is_rate = isinstance(lam, (int, float)) and not isinstance(lam, bool) and lam > 0
    if not ((is_rate or lam in rules) and c0 > 0 and noise_share > 0):
        raise ConfigError(
            f"{method}: lam = {lam}, c0 = {c0}, noise_share = {noise_share}. Accepted: numbers above 0, for lam also "
            f"{' and '.join(map(repr, rules))}."
        )
    if not 0 < corr < 1:
        raise ConfigError(f"{method}: corr = {corr}. Accepted: a number between 0 and 1.")


def fit(
    source: SourceModel,
    data: TargetData,
    config: BtlPcpConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> NetworkPosterior:
    """Sample the posterior of all weights and scales given the target's training rows (features (n, p), gaps in eV)."""
    progress(Update("preparing the transfer"))
    problem = problem_of(source, data, config, seed=seed)
    place, rows, alpha, lam = choose_device(device), problem.rows, problem.alpha, problem.lam
    net = whiten(problem.layers, rows.x, rows.y, device=place, dtype=torch.float32)
    noise_b = rows.noise_b(config.noise_share)
    prior = point_estimate_scales(alpha.to(place), lam=lam, noise_b=noise_b, c0=config.c0)
    posterior = sample_posterior(
        net,
        prior,
        rows.standardiser,
        sampler=config.sampler,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )
    return with_sensitivity(with_figures(posterior, lam=lam), alpha.mean(0))


@dataclass(frozen=True, eq=False)
class Problem:
    """The source's layers, the target's rows on its scales, squared gradient norms (n, L) and the prior's rate."""

    layers: list[torch.Tensor]
    rows: TargetRows
    alpha: torch.Tensor
    lam: float


def problem_of(source: SourceModel, data: TargetData, config: PointPrior, *, seed: int) -> Problem:
    """Return what is sampled, given the target's training rows (features (n, p), gaps in eV)."""
    source = centred(source, config.centre)
    rows = rows_for_source(source, data, **config.scales)
    alpha = layer_gradient_norms(source.params, rows.x)
    lam = config.lam if config.lam != "corr" else correlated_rate(alpha, config, seed=seed)
    return Problem(layers_of(source.params), rows, alpha, lam)


def correlated_rate(alpha: torch.Tensor, config: Correlation, *, seed: int) -> float:
    """Return the rate of the correlation rule from squared gradient norms alpha (n, L)."""
    n = alpha.shape[0]
    return rate_for_correlation(
        config.corr,
        alpha,
        alpha.new_full((n,), 1.0 / n),
        OutputVariance(alpha.new_zeros(n), alpha, 1.0),
        c0=config.c0,
        generator=torch.Generator().manual_seed(seed),
    )


METHOD: Final = Method(
    name="btl_pcp_pe",
    family="all layers, Bayesian",
    standing="recommended",
    title="Bayesian transfer, penalized complexity",
    summary=(
        "Samples all layers around the source model. The data decide how far each layer moves."
    ),
    duration="about 1 minute for 200 crystals on 2 cores",
    cost=Cost(35, 60, sampler="auto"),
    config=BtlPcpConfig,
    fit=fit,
    resumable=fit,
    new_elements=True,
)
