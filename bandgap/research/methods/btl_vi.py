"""BTL-VI: variational transfer of all layers with the source's Fisher information.

After Zhou et al. (2020): theta_k ~ N(theta_hat_k, 1 / (kappa F_k + delta / p_k^2)), with F the
diagonal Fisher information of the source's weights and p_k^2 the variance of their prior
(`variational`), so that kappa = delta = 1 is the source's Laplace approximation. The posterior
given the target is approximated by independent normals, with y ~ N(f(x; theta), sigma^2), sigma^2 ~
InvGamma(2, b) as in `btl_pcp_pe`, at the sigma of highest density. kappa is the share of the
source's information that still applies to the target: the candidate with the highest held-out
likelihood. Then all rows are fitted.

The floor delta / p_k^2 depends on the weight, since half of the first layer can have no information
at all, and with a standard deviation of 1 in each of these weights predictions are much less
accurate.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import Count, OneOrMore, Positive, ProperShare
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update
from bandgap.networks.perceptron import Params, forward, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import split_rows
from bandgap.networks.variational import (
    VariationalConfig,
    VariationalFit,
    WeightPrior,
    fit_variational,
    prior_sds,
)
from bandgap.posterior import Diagnostics, ScaledNetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData
from bandgap.transfer.shared.sampled_network import rows_for_source

HELD_OUT_DRAWS = 64  # of the weights, for the held-out likelihood of a kappa
TRAINING = VariationalConfig(
    epochs=800,
    batch_size=64,
    learning_rate=1e-2,
    final_learning_rate=5e-4,
    ramp_share=0.0,
    start_sd=0.02,
)


@dataclass(frozen=True)
class BtlViConfig(Scales):
    """Candidates for kappa, share `delta` of the prior's precision, scales, noise and training.

    `draws` is the number of stored draws.
    """

    kappas: OneOrMore[Positive] = (1.0, 0.1, 0.01, 0.001)
    delta: Positive = 1.0
    noise_share: Positive = 0.2
    validation_share: ProperShare = 0.2
    training: VariationalConfig = TRAINING
    draws: Count = 400


def fit(
    source: SourceModel, data: TargetData, config: BtlViConfig, fitting: Fitting
) -> ScaledNetworkPosterior:
    """Fit independent normals to all weights given the rows (features (n, p), gaps in eV).

    Raises InputError where the source has no Fisher information.
    """
    fitting.progress(Update("preparing the transfer"))
    if source.fisher is None:
        raise InputError(
            "the source has no Fisher information, which this method needs. Train it again with "
            "`bandgap train-source` (several sets: `bandgap train-sources`), or add it with "
            "`bandgap source-extras`; of several sets, to the one that the transfer starts from."
        )
    rows = rows_for_source(source, data, **config.scales)
    torch_device = choose_device(fitting.device)
    problem = _VariationalProblem(
        {name: value.to(torch_device) for name, value in source.params.items()},
        {name: value.to(torch_device) for name, value in source.fisher.items()},
        rows.x.float().to(torch_device),
        rows.y.float().to(torch_device),
        rows.noise_b(config.noise_share),
    )
    split = split_rows(
        len(data.gaps_eV), share=config.validation_share, generator=_stream(fitting.seed, 0)
    )
    scores = {}
    for kappa in config.kappas if len(config.kappas) > 1 else ():
        candidate = _fit_at(
            kappa,
            problem,
            split.training,
            config,
            phase=f"kappa = {kappa:g}",
            seed=fitting.seed,
            progress=fitting.progress,
        )
        scores[kappa] = _log_predictive(
            candidate, problem.x[split.held_out], problem.y[split.held_out], seed=fitting.seed
        )
    kappa = max(scores, key=lambda k: scores[k]) if scores else config.kappas[0]
    all_rows = torch.arange(len(data.gaps_eV))
    variational = _fit_at(
        kappa,
        problem,
        all_rows,
        config,
        phase="variational transfer",
        seed=fitting.seed,
        progress=fitting.progress,
    )
    figures = {"kappa": kappa, "elbo": variational.elbo[-1]}
    figures |= {f"held_out_nats_at_kappa_{k:g}": score for k, score in scores.items()}
    return _posterior(
        variational,
        rows.standardiser,
        draws=config.draws,
        diagnostics=Diagnostics(figures),
        seed=fitting.seed,
    )


@dataclass(frozen=True, eq=False)
class _VariationalProblem:
    """What is fitted.

    Attributes
    ----------
    params, fisher
        Source weights and their Fisher information.
    x, y
        Standardised features (n, p) and gaps (n,).
    noise_b
        Parameter b of the noise's prior.
    """

    params: Params
    fisher: Params
    x: Tensor
    y: Tensor
    noise_b: float


def _fit_at(
    kappa: float,
    problem: _VariationalProblem,
    rows: Tensor,
    config: BtlViConfig,
    *,
    phase: str,
    seed: int,
    progress: Progress,
) -> VariationalFit:
    device_rows = rows.to(problem.x.device)
    floor = {name: config.delta / sd**2 for name, sd in prior_sds(problem.params).items()}
    sd = {name: (kappa * f + floor[name]).rsqrt() for name, f in problem.fisher.items()}
    return fit_variational(
        problem.params,
        problem.x[device_rows],
        problem.y[device_rows],
        config=config.training,
        generator=_stream(seed, 1),
        prior=WeightPrior(problem.params, sd),
        noise_b=problem.noise_b,
        phase=phase,
        progress=progress,
    )


def _log_predictive(fit: VariationalFit, x: Tensor, y: Tensor, *, seed: int) -> float:
    """Return the mean log predictive density of y (n,) in nats, by draws of the weights."""
    generator = _stream(seed, 2)
    log_densities = []
    for _ in range(HELD_OUT_DRAWS):
        noise = {n: torch.randn(v.shape, generator=generator).to(v) for n, v in fit.mean.items()}
        drawn = {n: v + fit.sd[n] * noise[n] for n, v in fit.mean.items()}
        log_densities.append(-0.5 * (y - forward(drawn, x)).double() ** 2 / fit.noise_variance)
    log_mean = torch.stack(log_densities).logsumexp(0) - math.log(HELD_OUT_DRAWS)
    return float((log_mean - 0.5 * math.log(2 * math.pi * fit.noise_variance)).mean())


def _posterior(
    fit: VariationalFit,
    standardiser: Standardiser,
    *,
    draws: int,
    diagnostics: Diagnostics,
    seed: int,
) -> ScaledNetworkPosterior:
    """Return draws of the normals; those of the first layer are drawn at evaluation."""
    mean = layers_of({name: value.cpu() for name, value in fit.mean.items()})
    sd = layers_of({name: value.cpu() for name, value in fit.sd.items()})
    generator = _stream(seed, 3)
    upper = [
        m + s * torch.randn((1, draws, *m.shape), generator=generator)
        for m, s in zip(mean[1:], sd[1:], strict=True)
    ]
    width, n_inputs = mean[0].shape
    return ScaledNetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=mean[0],
        sd_1=sd[0],
        basis=torch.zeros(n_inputs, 0),
        coordinates=torch.zeros(1, draws, width, 0),
        scale_1=torch.ones(1, draws),
        upper=tuple(upper),
        sigma=np.full((1, draws), math.sqrt(fit.noise_variance)),
        seed=seed,
        diagnostics=diagnostics,
    )


def _stream(seed: int, number: int) -> torch.Generator:
    """Return the random generator of one step of the fit, on the CPU."""
    word = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(word) % 2**63)


METHOD: Final = Method(
    name="btl_vi",
    family="all layers, Bayesian",
    standing="research",
    title="Variational transfer, Fisher information",
    summary=(
        "Fits independent normal distributions to all weights, each as close to the source "
        "model as the source's data demand."
    ),
    references=("After Zhou et al. (2020); see Research methods in the documentation of bandgap.",),
    duration="about a minute for 200 crystals",
    cost=Cost(57, 127),
    config=BtlViConfig,
    fit=fit,
    needs="fisher",
)
