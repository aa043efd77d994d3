r"""BTL-PCP-PE: Bayesian transfer of all layers with a penalized-complexity prior around the source's point estimate.

Abba (2023), sections 2.3.3 and 2.4, eqs. 2.6 to 2.8: theta_l ~ N(theta_hat_l, tau c_l I), c ~ Dirichlet(c0, ..., c0),
tau | c, sigma with density lam exp(-lam d(tau)) d'(tau), d(tau)^2 = mean over training inputs of
phi(tau c'alpha(x) / sigma^2), y ~ N(f(x; theta), sigma^2), sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the
variance of the training gaps. lam = 1 by default: as accurate as the thesis' correlation rule and better covering where
the source fit has error.
"""

from dataclasses import dataclass, field, replace

import torch

from bandgap.devices import choose_device
from bandgap.errors import ConfigError
from bandgap.inference.network_chain import SamplerConfig
from bandgap.inference.pcp_scales import point_estimate_scales
from bandgap.inference.whitened_network import whiten
from bandgap.networks import layer_gradient_norms
from bandgap.posterior import NetworkPosterior
from bandgap.progress import Progress, Update, no_progress
from bandgap.recalibration import GapScale, StatisticsChoice
from bandgap.source import SourceModel
from bandgap.transfer.method import TargetData
from bandgap.transfer.sampled_network import layers_of, rows_for_source, sample_posterior


@dataclass(frozen=True)
class BtlPcpConfig:
    """Rate `lam` of the prior on the distance, Dirichlet parameter `c0`, scales (`recalibration`), noise, sampler."""

    lam: float = 1.0
    c0: float = 1.0
    standardise: StatisticsChoice = "auto"
    gap_scale: GapScale = "calibrated"
    noise_share: float = 0.2
    sampler: SamplerConfig = field(default_factory=SamplerConfig)

    def __post_init__(self) -> None:
        if not (self.lam > 0 and self.c0 > 0 and self.noise_share > 0):
            raise ConfigError(
                f"btl_pcp_pe: lam = {self.lam}, c0 = {self.c0}, noise_share = {self.noise_share}. "
                "Accepted: numbers above 0."
            )


def fit(
    source: SourceModel,
    data: TargetData,
    config: BtlPcpConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> NetworkPosterior:
    """Sample the posterior of all weights and scales given the target's training rows (features (n, p), gaps in eV)."""
    progress(Update("preparing the transfer"))
    rows = rows_for_source(source, data, statistics=config.standardise, gap_scale=config.gap_scale)
    alpha = layer_gradient_norms(source.params, rows.x)
    place = choose_device(device)
    net = whiten(layers_of(source.params), rows.x, rows.y, device=place, dtype=torch.float32)
    noise_b = rows.noise_b(config.noise_share)
    prior = point_estimate_scales(alpha.to(place), lam=config.lam, noise_b=noise_b, c0=config.c0)
    posterior = sample_posterior(net, prior, rows.standardiser, sampler=config.sampler, seed=seed, progress=progress)
    return replace(posterior, layer_sensitivity=alpha.mean(0).numpy())
