r"""BTL-PCP-PE: Bayesian transfer of all layers with a penalized-complexity prior around the source's point estimate.

Abba (2023), sections 2.3.3 and 2.4, eqs. 2.6 to 2.8: theta_l ~ N(theta_hat_l, tau c_l I), c ~ Dirichlet(c0, ..., c0),
tau | c, sigma with density lam exp(-lam d(tau)) d'(tau), d(tau)^2 = mean over training inputs of
phi(tau c'alpha(x) / sigma^2), y ~ N(f(x; theta), sigma^2), sigma^2 ~ InvGamma(2, b) with b = `noise_share` times the
variance of the training gaps. lam = 1 by default: as accurate as the thesis' correlation rule and better covering where
the source fit has error.
"""

from dataclasses import dataclass, field

import torch

from bandgap.devices import choose_device
from bandgap.errors import ConfigError
from bandgap.inference.network_chain import SamplerConfig
from bandgap.inference.network_draws import NetworkDraws, SamplerInfo
from bandgap.inference.network_sampler import sample_network
from bandgap.inference.scales import ScalePrior, layer_weights, relative_scales, sigma_of, tau_of
from bandgap.inference.whitened_network import WhitenedNetwork, whiten
from bandgap.networks import layer_gradient_norms
from bandgap.posterior import Diagnostics, Floats, NetworkPosterior
from bandgap.progress import Progress, Update, no_progress
from bandgap.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.source import SourceModel
from bandgap.standardise import Standardiser
from bandgap.transfer.method import TargetData

RHAT_LIMIT, DIVERGENT_SHARE = 1.05, 0.001


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
    standardiser = standardiser_for(
        source, data.features, data.gaps_eV, statistics=config.standardise, gap_scale=config.gap_scale
    )
    x = torch.from_numpy(standardiser.features(data.features))
    y = torch.from_numpy(standardiser.gaps(data.gaps_eV))
    alpha = layer_gradient_norms(source.params, x)
    place = choose_device(device)
    net = whiten(source_layers(source), x, y, device=place, dtype=torch.float32)
    prior = ScalePrior(alpha.to(place), config.lam, config.noise_share * float(y.var()), config.c0)
    draws, info = sample_network(net, prior, config=config.sampler, seed=seed, progress=progress)
    return _posterior(net, draws, standardiser=standardiser, alpha=alpha, diagnostics=diagnose(info), seed=seed)


def source_layers(source: SourceModel) -> list[torch.Tensor]:
    """Return theta_hat as one tensor (out, in + 1) a layer, the bias being the last column."""
    return [
        torch.cat([source.params[f"weight.{i}"], source.params[f"bias.{i}"][:, None]], 1)
        for i in range(1, source.network.n_layers + 1)
    ]


def diagnose(info: SamplerInfo) -> Diagnostics:
    """Turn the sampler's figures into sentences: whether the chains agree, and what to do when they do not."""
    figures = info.figures()
    warnings = []
    scales = {name.removeprefix("rhat_"): value for name, value in figures.items() if name.startswith("rhat_")}
    worst = max((name for name in scales if name not in ("max", "fit_max")), key=lambda name: scales[name])
    if figures["rhat_max"] > RHAT_LIMIT:
        fit_is_worst = scales["fit_max"] >= scales[worst]
        what, value = ("the predictions", scales["fit_max"]) if fit_is_worst else (worst, scales[worst])
        warnings.append(
            f"The chains have not agreed yet on {what} (R-hat {value:.3f}, want below {RHAT_LIMIT}). Predictions are "
            "usable for a look, not for a table. Raise draws or warmup of the sampler."
        )
    if figures["divergences"] > DIVERGENT_SHARE * info.divergent.size:
        warnings.append(
            f"{figures['divergences']:.0f} of {info.divergent.size} paths diverged: part of the posterior may be "
            "missing. Raise target_accept of the sampler."
        )
    return Diagnostics(figures, tuple(warnings))


def _posterior(
    net: WhitenedNetwork,
    draws: NetworkDraws,
    *,
    standardiser: Standardiser,
    alpha: torch.Tensor,
    diagnostics: Diagnostics,
    seed: int,
) -> NetworkPosterior:
    chains, kept = draws.state.shape[:2]
    state = draws.state.reshape(chains * kept, -1)
    scales = (relative_scales(state) * sigma_of(state)[:, None]).reshape(chains, kept, -1)
    narrow = scales.float()[..., None, None]
    upper = [net.theta_hat[i].cpu() + narrow[:, :, i] * draws.z[i] for i in range(1, len(draws.z))]
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=net.theta_hat[0].cpu(),
        basis=net.basis.cpu(),
        coordinates=narrow[:, :, 0] * draws.z[0],
        scale_1=scales[..., 0].float(),
        upper=(*upper, draws.output.float().unsqueeze(2)),
        sigma=_shaped(sigma_of(state), chains),
        seed=seed,
        layer_weights=_shaped(layer_weights(state), chains),
        tau=_shaped(tau_of(state), chains),
        layer_sensitivity=alpha.mean(0).numpy(),
        diagnostics=diagnostics,
    )


def _shaped(values: torch.Tensor, chains: int) -> Floats:
    return values.reshape(chains, -1, *values.shape[1:]).double().numpy()
