"""BTL-PCP-VI: Bayesian transfer of all layers around the source's variational posterior.

Abba (2023), sections 2.3.2 and 2.4, eqs. 2.3 and 2.4: theta_hat and the diagonal Sigma are those of
the source's mean-field variational posterior;

    theta_l ~ N(theta_hat_l, (1 + tau c_l) Sigma_l), c ~ Dirichlet(c0, ..., c0),
    tau | c with density lam exp(-lam d(tau)) d'(tau), d(tau)^2 = sum_l v_l phi(c_l tau)

over the v_l parameters of each layer; noise as in `btl_pcp_pe`. The base model, tau = 0, is the
source's posterior.

The distance is a sum over all parameters. With 160,000 of them tau is of order 0.01 at lam = 1, the
posterior of tau equals its prior, and the target moves the weights only within the source's own
uncertainty. Therefore lam follows the thesis' rule by default: the rate at which the network's
output has the correlation 0.5 with a label (`priors.correlation`). No rate does where the source's
own uncertainty gives a higher correlation, or the smallest rate a lower one; then it is the rate
whose correlation is half-way between both, with a warning.
"""

from dataclasses import dataclass, field, replace
from typing import Final, Literal

import torch
from torch import Tensor

from bandgap.foundation import citations
from bandgap.foundation.config import Positive, ProperShare
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Update
from bandgap.inference.network.draws import NetworkDraws
from bandgap.inference.network.pcp_scales import VariationalScales, variational_scales
from bandgap.inference.network.sampler import sample_network
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.networks.perceptron import layer_variances, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.networks.variational import VariationalFit
from bandgap.posterior import Diagnostics, ScaledNetworkPosterior
from bandgap.posterior.network import first_layer_coordinates
from bandgap.priors.correlation import (
    OutputVariance,
    UnreachableCorrelationError,
    rate_for_correlation,
)
from bandgap.research.shared.scaled_network import whiten_scaled
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.sampled_network import (
    centred,
    diagnose,
    recorded,
    rows_for_source,
    variational_posterior,
    with_sensitivity,
)

VariationalRate = Positive | Literal["auto", "corr"]


@dataclass(frozen=True)
class BtlPcpViConfig(Scales):
    """Prior, scales (`recalibration`), noise and sampler; `corr` and `c0` as in `btl_pcp_pe`.

    Parameters
    ----------
    lam
        A rate, or "corr" for the rate at which the network's output has the correlation `corr`
        with a label. The paper has "corr"; "auto" because such a rate need not exist: "auto" is
        "corr" where it does, else the rate whose correlation is in the middle of those that exist.
    corr
        Correlation of the rule "corr".
    """

    lam: VariationalRate = "auto"
    corr: ProperShare = 0.5
    c0: Positive = 1.0
    noise_share: Positive = 0.2
    sampler: SamplerConfig = field(default_factory=SamplerConfig)


def fit(
    source: SourceModel, data: TargetData, config: BtlPcpViConfig, fitting: Fitting
) -> ScaledNetworkPosterior:
    """Sample all weights and scales given the training rows (features (n, p), gaps in eV).

    Raises InputError where the source has no variational posterior.
    """
    fitting.progress(Update("preparing the transfer"))
    source_posterior = variational_posterior(source)
    rows = rows_for_source(centred(source, "variational"), data, **config.scales)
    gains = layer_variances(source_posterior.mean, source_posterior.sd, rows.x)
    torch_device = choose_device(fitting.device)
    noise_b = rows.noise_b(config.noise_share)
    prior = variational_scales(
        source.network.layer_sizes, noise_b=noise_b, c0=config.c0, device=torch_device
    )
    rate, rate_warnings = _rate(gains, source_posterior, prior, config, seed=fitting.seed)
    prior = replace(prior, lam=rate)
    layers = layers_of(source_posterior.mean)
    sds = layers_of(source_posterior.sd)
    net = whiten_scaled(layers, sds, rows.x, rows.y, device=torch_device, dtype=torch.float32)
    draws, info = sample_network(
        net,
        prior,
        config=config.sampler,
        seed=fitting.seed,
        progress=fitting.progress,
        checkpoint=fitting.checkpoint,
    )
    diagnostics = recorded(
        diagnose(info), info, prior, unit_eV=rows.standardiser.y_sd_eV, seed=fitting.seed
    )
    posterior = _posterior(
        draws,
        prior,
        source_posterior,
        basis=net.basis.cpu(),
        standardiser=rows.standardiser,
        diagnostics=replace(
            diagnostics,
            figures={**diagnostics.figures, "lam": prior.lam},
            warnings=(*rate_warnings, *diagnostics.warnings),
        ),
        seed=fitting.seed,
    )
    return with_sensitivity(posterior, gains.mean(0))


def _rate(
    gains: Tensor,
    source_posterior: VariationalFit,
    prior: VariationalScales,
    config: BtlPcpViConfig,
    *,
    seed: int,
) -> tuple[float, tuple[str, ...]]:
    """Return the rate lam, and warnings about it."""
    if config.lam != "auto" and config.lam != "corr":
        return config.lam, ()

    def rate(correlation: float) -> float:
        return rate_for_correlation(
            correlation,
            prior.slopes.cpu(),
            prior.weights.cpu(),
            OutputVariance(gains.sum(1), gains, source_posterior.noise_variance),
            c0=config.c0,
            generator=torch.Generator().manual_seed(seed),
        )

    try:
        return rate(config.corr), ()
    except UnreachableCorrelationError as error:
        if config.lam == "corr":
            raise
        return rate(error.middle), (
            f"No rate lam of the prior gives the correlation {config.corr:g} between the network's "
            f"output and a label; the one that gives {error.middle:.2f} was taken. The source's "
            "own uncertainty may decide the result.",
        )


def _posterior(
    draws: NetworkDraws,
    prior: VariationalScales,
    source_posterior: VariationalFit,
    *,
    basis: Tensor,
    standardiser: Standardiser,
    diagnostics: Diagnostics,
    seed: int,
) -> ScaledNetworkPosterior:
    chains, draws_of_chain = draws.state.shape[:2]
    layers = layers_of(source_posterior.mean)
    sds = layers_of(source_posterior.sd)
    scales = prior.scales(draws.state.flatten(0, 1))
    scale = scales.s.reshape(chains, draws_of_chain, -1).float()[..., None, None]
    hidden = [layers[i] + scale[:, :, i] * sds[i] * draws.z[i] for i in range(1, len(draws.z))]
    output = draws.output.float().unsqueeze(2) * sds[-1]
    tau, c = prior.tau_and_weights(draws.state)
    return ScaledNetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=layers[0],
        sd_1=sds[0],
        basis=basis,
        coordinates=first_layer_coordinates(draws.z[0], sd_1=sds[0], basis=basis, seed=seed),
        scale_1=scale[:, :, 0, 0, 0],
        upper=(*hidden, output),
        sigma=scales.sigma.reshape(chains, draws_of_chain).numpy(),
        seed=seed,
        layer_weights=c.numpy(),
        tau=tau.numpy(),
        diagnostics=diagnostics,
    )


METHOD: Final = Method(
    name="btl_pcp_vi",
    family="all layers, Bayesian",
    standing="research",
    title="Bayesian transfer within the source's uncertainty",
    summary=(
        "Samples all layers around the source model's own posterior, which the data may widen."
    ),
    references=(citations.METHOD,),
    duration="about 3 minutes for 200 crystals on 2 cores",
    cost=Cost(90, 180, coordinates="whitened"),
    config=BtlPcpViConfig,
    fit=fit,
    needs="variational",
)
