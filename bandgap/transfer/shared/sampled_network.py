"""Methods that sample a network's weights: centre, training rows, posterior and diagnostics."""

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.foundation.quantities import disagreement
from bandgap.inference.network.draws import NetworkDraws, SamplerInfo
from bandgap.inference.network.sampler import sample_network
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.scales import ScalePrior
from bandgap.inference.network.whitened_network import WhitenedNetwork
from bandgap.networks.standardise import Standardiser
from bandgap.networks.variational import VariationalFit
from bandgap.posterior import Diagnostics, NetworkPosterior
from bandgap.posterior.network import function_share
from bandgap.posterior.protocol import PRIOR_DRAWS, thinned
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.transfer.shared.method import Fitting, TargetData

Centre = Literal["point", "variational"]

DIVERGENT_SHARE = 0.001
AnyNetwork = TypeVar("AnyNetwork", bound=NetworkPosterior)


@dataclass(frozen=True, eq=False)
class TargetRows:
    """Standardised training rows, x (n, p) and y (n,) in float64, and their scales."""

    standardiser: Standardiser
    x: Tensor
    y: Tensor

    def noise_b(self, share: float) -> float:
        """Return b of sigma^2 ~ InvGamma(2, b), its prior mean: a share of the variance of y."""
        return share * float(self.y.var())


def standardised(data: TargetData, standardiser: Standardiser) -> TargetRows:
    """Return the training rows (features (n, p), gaps in eV) on these scales."""
    x = standardiser.features(data.features)
    y = standardiser.gaps(data.gaps_eV)
    return TargetRows(standardiser, torch.from_numpy(x), torch.from_numpy(y))


def rows_for_source(
    source: SourceModel, data: TargetData, *, statistics: StatisticsChoice, gap_scale: GapScale
) -> TargetRows:
    """Return the training rows on the scales of a transfer from this source (`recalibration`)."""
    scale = standardiser_for(
        source, data.features, data.gaps_eV, statistics=statistics, gap_scale=gap_scale
    )
    return standardised(data, scale)


def variational_posterior(source: SourceModel) -> VariationalFit:
    """Return the source's variational posterior; raises InputError where it has none."""
    if source.variational is None:
        raise InputError(
            "the source has no variational posterior, which this method needs. Train it with "
            "`bandgap train-source --variational` (several sets: `bandgap train-sources "
            "--variational`), or add one to it with `bandgap source-extras --variational`; of "
            "several sets, to the one that the transfer starts from."
        )
    return source.variational


def centred(source: SourceModel, centre: Centre) -> SourceModel:
    """Return the source with the weights of this centre.

    Raises InputError for a source without a variational posterior, if the centre is its mean.
    """
    if centre == "point":
        return source
    return replace(source, params=variational_posterior(source).mean)


def sample_posterior(
    net: WhitenedNetwork,
    prior: ScalePrior,
    standardiser: Standardiser,
    fitting: Fitting,
    *,
    sampler: SamplerConfig,
) -> NetworkPosterior:
    """Sample the weights of a network and their scales; return draws as a posterior."""
    draws, info = sample_network(
        net,
        prior,
        config=sampler,
        seed=fitting.seed,
        progress=fitting.progress,
        checkpoint=fitting.checkpoint,
    )
    diagnostics = recorded(
        diagnose(info), info, prior, unit_eV=standardiser.y_sd_eV, seed=fitting.seed
    )
    return _posterior(
        net, prior, draws, standardiser=standardiser, diagnostics=diagnostics, seed=fitting.seed
    )


def recorded(
    diagnostics: Diagnostics, info: SamplerInfo, prior: ScalePrior, *, unit_eV: float, seed: int
) -> Diagnostics:
    """Return the diagnostics with a record: traces, energies, and prior draws of the scales.

    `unit_eV` is the standard deviation of the gaps by which sigma is standardised.
    """
    recorded_draws = thinned(info.energy.shape[1])
    traces = {f"trace.{name}": values[:, recorded_draws] for name, values in info.judged.items()}
    state = prior.draw(PRIOR_DRAWS, generator=torch.Generator().manual_seed(seed))
    sigma = torch.exp(prior.log_sigma(state)) * unit_eV
    tau, c = prior.tau_and_weights(state)
    prior_draws = {"prior.sigma_eV": sigma, "prior.tau": tau, "prior.c": c}
    from_prior = {name: value.cpu().numpy()[None] for name, value in prior_draws.items()}
    return replace(
        diagnostics, record={**traces, "energy": info.energy[:, recorded_draws], **from_prior}
    )


def with_sensitivity(posterior: AnyNetwork, sensitivity: Tensor) -> AnyNetwork:
    """Return the posterior with the sensitivity (L,) of the function to each layer.

    The record then also has prior draws of each layer's share of the function's change.
    """
    alpha = sensitivity.cpu().numpy()
    diagnostics = posterior.diagnostics
    record = {
        **diagnostics.record,
        "prior.kappa": function_share(diagnostics.record["prior.c"], alpha),
    }
    return replace(
        posterior, layer_sensitivity=alpha, diagnostics=replace(diagnostics, record=record)
    )


def with_figures(posterior: NetworkPosterior, **figures: float) -> NetworkPosterior:
    """Return the posterior with more figures in its diagnostics."""
    diagnostics = posterior.diagnostics
    return replace(
        posterior, diagnostics=replace(diagnostics, figures={**diagnostics.figures, **figures})
    )


def diagnose(info: SamplerInfo) -> Diagnostics:
    """Return the sampler's figures, and warnings where chains disagree or diverge."""
    figures = info.figures()
    rhat = {
        name.removeprefix("rhat_"): value
        for name, value in figures.items()
        if name.startswith("rhat_")
    }
    del rhat["max"]
    disagreements = disagreement(rhat)
    warnings = [] if disagreements is None else [disagreements]
    if figures["divergences"] > DIVERGENT_SHARE * info.divergent.size:
        warnings.append(
            f"{figures['divergences']:.0f} of {info.divergent.size} paths diverged: part of the "
            "posterior may be missing. Raise target_accept of the sampler."
        )
    return Diagnostics(figures, tuple(warnings))


def _posterior(
    net: WhitenedNetwork,
    prior: ScalePrior,
    draws: NetworkDraws,
    *,
    standardiser: Standardiser,
    diagnostics: Diagnostics,
    seed: int,
) -> NetworkPosterior:
    chains, draws_of_chain = draws.state.shape[:2]
    scales = prior.scales(draws.state.flatten(0, 1))
    scale = scales.s.reshape(chains, draws_of_chain, -1).float()[..., None, None]
    upper = [net.theta_hat[i].cpu() + scale[:, :, i] * draws.z[i] for i in range(1, len(draws.z))]
    tau, c = prior.tau_and_weights(draws.state)
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=net.theta_hat[0].cpu(),
        basis=net.basis.cpu(),
        coordinates=scale[:, :, 0] * draws.z[0],
        scale_1=scale[:, :, 0, 0, 0],
        upper=(*upper, draws.output.float().unsqueeze(2)),
        sigma=scales.sigma.reshape(chains, draws_of_chain).numpy(),
        seed=seed,
        layer_weights=c.numpy(),
        tau=tau.numpy(),
        diagnostics=diagnostics,
    )
