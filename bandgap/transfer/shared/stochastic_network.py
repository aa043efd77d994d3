"""What a transfer by stochastic-gradient MCMC does with a network: units, starts, step, runs, posterior and verdict."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress
from bandgap.foundation.quantities import disagreement
from bandgap.inference import checkpoints, diagnostics
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.pcp_scales import PointEstimateScales
from bandgap.inference.network.whitened_network import WhitenedNetwork
from bandgap.inference.stochastic_gradient.gradients import batch_gradient
from bandgap.inference.stochastic_gradient.halving import sample_and_halve
from bandgap.inference.stochastic_gradient.mixture_metric import Metric
from bandgap.inference.stochastic_gradient.mode_search import climb
from bandgap.inference.stochastic_gradient.network_target import NetworkTarget, network_target
from bandgap.inference.stochastic_gradient.outcomes import Draws, Extras, Info, RunConfig
from bandgap.inference.stochastic_gradient.protocol import arrays_of
from bandgap.inference.stochastic_gradient.pruning import zero_smallest
from bandgap.inference.stochastic_gradient.psgld import PsgldConfig
from bandgap.inference.stochastic_gradient.run import sample
from bandgap.inference.stochastic_gradient.samplers import CONFIGS, AnyConfig
from bandgap.inference.stochastic_gradient.step_size import batch_noise, largest_curvature, stiff_metric
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Diagnostics, Floats, NetworkPosterior
from bandgap.posterior.protocol import thinned
from bandgap.transfer.shared.sampled_network import PRIOR_DRAWS

WATCHED_ROWS = 64  # of the training rows, whose f tells whether chains agree
UNIT_ROWS = 512  # from which units and the largest curvature are found
MOST_STABLE = 0.25  # of the largest stable step
RECORDS = 400  # of scales and f in a chain
FRICTION = 0.1
MOMENTUM = 4.0  # by which steps are shorter where momentum is added to the drift
STIFF = 32  # directions that the metric shrinks
SCALE_UNIT = 0.5  # in which the search moves the logarithms of scales

Name = Literal["sghmc", "psgld", "hamcmc_sa", "hamcmc", "sgld", "msgld", "asgld"]


@dataclass(frozen=True)
class SgSampler:
    """Which sampler (`name`), chains, iterations of warm-up and after it, kept draws of all chains, rows of a batch.

    `search` are steps of the search for a start. The step follows from `widening`, the share by which batch noise may
    widen the posterior's variance in its stiffest direction; `step` sets it by hand, in units of the posterior's rough
    width. `control` takes a control variate at the start (twice the gradients). `halve` runs again with half the step
    and says whether predictions change (three times the time).
    """

    name: Name = "sghmc"
    chains: int = 4
    warmup: int = 3000
    draws: int = 7000
    keep: int = 100
    batch_size: int = 128
    search: int = 1500
    learning_rate: float = 0.02
    widening: float = 0.5
    step: float | None = None
    control: bool = False
    halve: bool = False

    def __post_init__(self) -> None:
        if self.chains < 2 or min(self.warmup, self.draws, self.search) < 10 or not self.chains <= self.keep <= 400:
            raise ConfigError(
                f"sampler: {self.chains} chains, {self.warmup} warm-up iterations, {self.draws} draws, {self.keep} "
                f"kept, {self.search} steps of the search. Accepted: at least 2 chains, 10 iterations each, and from "
                "one kept draw for every chain to 400."
            )
        if self.batch_size < 1 or not (self.widening > 0 and self.learning_rate > 0) or (self.step or 1.0) <= 0:
            raise ConfigError(
                f"sampler: batch_size {self.batch_size}, widening {self.widening}, learning_rate {self.learning_rate}, "
                f"step {self.step}. Accepted: a whole number from 1, numbers above 0."
            )


def sample_stochastically(
    net: WhitenedNetwork,
    prior: PointEstimateScales,
    standardiser: Standardiser,
    *,
    sampler: SgSampler,
    prune_share: float,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> NetworkPosterior:
    """Sample weights and scales; return the kept draws as a posterior."""
    batch = min(sampler.batch_size, net.n_rows)
    target, start, curvature = _started(net, prior, sampler, batch, seed, progress, checkpoint, stiff=prune_share == 0)
    noise, slope = batch_noise(net.n_rows, batch), (net.n_rows * batch) ** -0.5
    config = sampler_for(sampler, curvature=curvature, noise=noise, slope=slope)
    watched = torch.linspace(0, net.n_rows - 1, min(WATCHED_ROWS, net.n_rows)).long().to(start.device)

    def record(position: Tensor) -> Tensor:
        return torch.cat([target.state(position), target.values(position, watched).double()], 1)

    mask = None
    if prune_share > 0:
        start = zero_smallest(start, tuple(target.spans[:-1]), share=prune_share)
        mask = (start != 0).to(start)
    thin = max(1, sampler.draws * sampler.chains // sampler.keep)
    run = RunConfig(
        sampler.warmup, sampler.draws, thin, batch, record_every=max(1, sampler.draws // RECORDS), longest_move=1e4
    )
    shape = (sampler.chains, config.walkers, -1) if config.walkers > 1 else (sampler.chains, -1)
    extras = Extras(record, None, None, mask)
    if sampler.halve:
        draws, info = sample_and_halve(target, config, start.reshape(shape), config=run, seed=seed, extras=extras)
    else:
        draws, info = sample(
            target, config, start.reshape(shape), config=run, seed=seed, extras=extras, progress=progress,
            checkpoint=None if checkpoint is None else checkpoint.of_part(1),
        )  # fmt: skip
    figures = {"step": config.step, "largest_curvature": curvature, "zero_share": info.zero_share}
    return _posterior(target, prior, draws, info, standardiser, figures=figures, seed=seed)


def sampler_for(sampler: SgSampler, *, curvature: float, noise: float, slope: float = 1.0) -> AnyConfig:
    """Return the sampler's settings with the step that its widening asks for, at this curvature and batch noise c.

    `slope` is the usual size of a batch's mean gradient of a row, at which pSGLD's metric is kept from growing.

    In direction of curvature l batch noise of covariance c l adds h c l / 2 to the variance's ratio (`step_size`); h is
    eta / friction for SGHMC, whose own stability bound is on eta.
    """
    kind, noise = CONFIGS[sampler.name], max(noise, 1e-12)
    h = 2.0 * sampler.widening / (noise * curvature)
    if sampler.name == "sghmc":
        return kind(sampler.step or min(FRICTION * h, MOST_STABLE * 2.0 / curvature))
    added = MOMENTUM if sampler.name in ("msgld", "asgld") else 1.0
    h = sampler.step or min(h, MOST_STABLE * 2.0 / curvature) / added
    return PsgldConfig(h * slope, damping=slope) if sampler.name == "psgld" else kind(h)


def _started(
    net: WhitenedNetwork,
    prior: PointEstimateScales,
    sampler: SgSampler,
    batch: int,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
    *,
    stiff: bool,
) -> tuple[NetworkTarget, Tensor, float]:
    """Return the target in its units, positions (chain and walker, dim) to start from, and the largest curvature."""
    target = network_target(net, prior)
    part = None if checkpoint is None else checkpoint.of_part(0)
    facts = {"sampler": repr(sampler), "seed": seed, "problem": checkpoints.content_of(net, prior)}
    if part is not None and part.path.exists():
        arrays, found = checkpoints.read(part.path, expected=facts, device=net.inputs.device)
        metric = Metric(*(arrays[name] for name in ("level", "basis", "inside", "root")))
        target = replace(target, units=arrays["units"], metric=metric)
        return target, arrays["start"], float(found["curvature"])
    walkers = CONFIGS[sampler.name](1.0).walkers
    generator = torch.Generator().manual_seed(seed)
    count = sampler.chains * walkers
    state = prior.start(count, log_sd=float(torch.log(net.y.std())), generator=generator).to(net.inputs.device)
    zeros = [net.inputs.new_zeros(count, *shape) for shape in target.shapes]
    rows = torch.randperm(net.n_rows, generator=generator)[:UNIT_ROWS].to(net.inputs.device)
    position = target.position(zeros, state)
    units = torch.sqrt(target.in_own_units(position[:1], rows).units)
    units[target.spans[-1][1] :] = SCALE_UNIT
    wide = replace(target, units=units)
    position = climb(
        wide, wide.position(zeros, state), steps=sampler.search, learning_rate=sampler.learning_rate,
        batch_size=batch, seed=seed, progress=progress,
    )  # fmt: skip
    z, state = wide.layers(position), wide.state(position)
    target = target.in_own_units(target.position([q[:1] for q in z], state[:1]), rows)
    position = target.position(z, state)

    def gradient(at: Tensor) -> Tensor:
        return batch_gradient(target, rows.expand(at.shape[0], -1))(at).total

    if stiff:
        metric = stiff_metric(gradient, position[0], rank=STIFF, generator=generator)
        target = replace(target, metric=metric)
        position = target.position(z, state)
    curvature = max(1.0, abs(largest_curvature(gradient, position[0], generator=generator)))
    noise = torch.randn(position.shape, generator=generator, dtype=position.dtype).to(position)
    start = position + noise / curvature**0.5
    first = target.spans[-1][1]
    prior_led = target.units[:first] ** 2  # 1 where the rows say nothing
    start[:, :first] = position[:, :first] + noise[:, :first] * prior_led
    if part is not None:
        arrays = {"units": target.units, "start": start, **arrays_of(target.metric)}
        checkpoints.write(part.path, arrays, facts | {"curvature": curvature})
    return target, start, curvature


def _posterior(
    target: NetworkTarget,
    prior: PointEstimateScales,
    draws: Draws,
    info: Info,
    standardiser: Standardiser,
    *,
    figures: dict[str, float],
    seed: int,
) -> NetworkPosterior:
    net, position = target.net, draws.position
    chains, kept = position.shape[:2]
    z, state = target.layers(position), target.state(position).cpu()
    scales = prior.scales(state.flatten(0, 1))
    s = scales.s.reshape(chains, kept, -1).float()[..., None, None]
    upper = [net.theta_hat[i].cpu() + s[:, :, i] * z[i].cpu() for i in range(1, len(z))]
    tau, c = prior.tau_and_weights(state)
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=net.theta_hat[0].cpu(),
        basis=net.basis.cpu(),
        coordinates=s[:, :, 0] * z[0].cpu(),
        scale_1=s[:, :, 0, 0, 0],
        upper=tuple(upper),
        sigma=scales.sigma.reshape(chains, kept).numpy(),
        seed=seed,
        layer_weights=c.numpy(),
        tau=tau.numpy(),
        diagnostics=_diagnose(prior, draws, info, figures, unit_eV=standardiser.y_sd_eV, seed=seed),
    )


def _diagnose(
    prior: PointEstimateScales, draws: Draws, info: Info, figures: dict[str, float], *, unit_eV: float, seed: int
) -> Diagnostics:
    assert draws.recorded is not None
    recorded, width = draws.recorded.cpu().numpy(), int(prior.units.shape[0])
    judged, fitted = prior.judged(recorded[..., :width]), recorded[..., width:]
    found = {"chains": float(len(info.chains)), "divergences": float(info.divergences)}
    warnings = [warning.text for warning in info.warnings]
    if recorded.shape[0] > 1 and recorded.shape[1] >= 8:
        agreed, known = _agreement({**judged, "predictions": fitted})
        found |= known
        said = disagreement(agreed)
        warnings += [] if said is None else [said]
    state = prior.draw(PRIOR_DRAWS, generator=torch.Generator().manual_seed(seed))
    tau, c = prior.tau_and_weights(state)
    from_prior = {"prior.sigma_eV": torch.exp(prior.log_sigma(state)) * unit_eV, "prior.tau": tau, "prior.c": c}
    every = thinned(recorded.shape[1])
    record = {f"trace.{name}": values[:, every] for name, values in judged.items()}
    record |= {name: value.numpy()[None] for name, value in from_prior.items()}
    return Diagnostics(found | figures, tuple(warnings), record=record)


def _agreement(quantities: dict[str, Floats]) -> tuple[dict[str, float], dict[str, float]]:
    rhat = {name: float(np.max(diagnostics.rhat(values))) for name, values in quantities.items()}
    ess = {name: float(np.min(diagnostics.ess_bulk(values))) for name, values in quantities.items()}
    figures = {f"rhat_{name}": value for name, value in rhat.items()} | {f"ess_{name}": v for name, v in ess.items()}
    return rhat, figures | {"rhat_max": max(rhat.values()), "ess_min": min(ess.values())}
