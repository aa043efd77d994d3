"""What a transfer by stochastic-gradient MCMC does with a network: units, starts, step, runs, posterior and verdict."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.progress import Progress, Update
from bandgap.foundation.quantities import disagreement
from bandgap.inference import diagnostics
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import ATTEMPTS, DivergedError, first_that_stays
from bandgap.inference.network.pcp_scales import PointEstimateScales
from bandgap.inference.network.whitened_network import WhitenedNetwork
from bandgap.inference.stochastic_gradient.gradients import control_variate
from bandgap.inference.stochastic_gradient.halving import sample_and_halve
from bandgap.inference.stochastic_gradient.network_target import NetworkTarget
from bandgap.inference.stochastic_gradient.outcomes import Draws, Info, RunConfig
from bandgap.inference.stochastic_gradient.protocol import SamplerWarning
from bandgap.inference.stochastic_gradient.pruning import Matrix, Pruning, zero_smallest
from bandgap.inference.stochastic_gradient.run import sample
from bandgap.inference.stochastic_gradient.samplers import AnyConfig
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Diagnostics, Floats, NetworkPosterior
from bandgap.posterior.protocol import PRIOR_DRAWS, thinned
from bandgap.transfer.shared.stochastic_start import SgSampler, Started, sampler_for, started

WATCHED_ROWS = 64  # of the training rows, whose f tells whether chains agree
RECORDS = 400  # of scales and f in a chain
PRUNINGS = 20  # at least, before the last
LEAST_LEFT = 0.01  # of the way to the full share, at the last of them


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
    begun = started(net, prior, sampler, batch, seed, progress, checkpoint, turn=prune_share == 0)
    target, start = begun.target, begun.start
    config = sampler_for(
        sampler,
        curvature=begun.curvature,
        noise=begun.noise(batch),
        slope=(net.n_rows * batch) ** -0.5,
    )
    watched = (
        torch.linspace(0, net.n_rows - 1, min(WATCHED_ROWS, net.n_rows)).long().to(start.device)
    )

    def record(position: Tensor) -> Tensor:
        return torch.cat([target.state(position), target.values(position, watched).double()], 1)

    mask, figures = None, {"step": config.step, "largest_curvature": begun.curvature}
    if prune_share > 0:
        start, reborn = _pruned(begun, config, sampler, share=prune_share, seed=seed, progress=progress,
                                checkpoint=checkpoint)  # fmt: skip
        mask, figures = (start != 0).to(start), figures | {"reborn_share": reborn}
    thin = max(1, sampler.draws * sampler.chains // sampler.keep)
    run = RunConfig(
        sampler.warmup,
        sampler.draws,
        thin,
        batch,
        record_every=max(1, sampler.draws // RECORDS),
        longest_move=1e4,
    )
    control = control_variate(target, start.mean(0)) if sampler.control else None
    shape = (sampler.chains, config.walkers, -1) if config.walkers > 1 else (sampler.chains, -1)
    variance = None if sampler.control else begun.variance
    extras = begun.extras(record=record, control=control, mask=mask, variance=variance)

    def attempt(halvings: int) -> tuple[Draws, Info]:
        first, second = (
            None if checkpoint is None else checkpoint.of_part(k + 4 * halvings) for k in (1, 3)
        )
        own = replace(config, step=config.step / 2**halvings)
        figures["step"] = own.step
        if sampler.halve:
            return sample_and_halve(
                target, own, start.reshape(shape), config=run, seed=seed, extras=extras, progress=progress,
                checkpoints=(first, second),
            )  # fmt: skip
        return sample(
            target, own, start.reshape(shape), config=run, seed=seed, extras=extras, progress=progress,
            checkpoint=first,
        )  # fmt: skip

    found = first_that_stays(attempt)
    if found is None:
        raise DivergedError(
            f"sampler: all chains diverged, down to a step of {figures['step']:.3g}. Set a smaller step, or take a "
            "longer search."
        )
    draws, info = found
    if figures["step"] < config.step:
        words = f"All chains diverged at a step of {config.step:.3g} and began anew, with {figures['step']:.3g} in the end."
        info = replace(info, warnings=(*info.warnings, SamplerWarning("diverged", words)))
    figures["zero_share"] = info.zero_share
    return _posterior(target, prior, draws, info, standardiser, figures=figures, seed=seed)


def _pruned(
    begun: Started,
    config: AnyConfig,
    sampler: SgSampler,
    *,
    share: float,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> tuple[Tensor, float]:
    """Run as long as a warm-up, sending the smallest moves of hidden layers back to the source again and again.

    They may return (`pruning`). The share rises to its full height in the end, which is exact for every layer. Return
    the positions (chain, dim), and the share of what a pruning at once would have sent back that is not there. Where a
    chain diverges all begin anew with half the step.
    """
    target, batch = begun.target, min(sampler.batch_size, begun.target.n_rows)
    matrices, length = _matrices(target), max(1, sampler.warmup)
    every = max(1, min(-(-target.n_rows // batch), length // PRUNINGS))
    pruning = Pruning(
        matrices, every, share=share, decay=LEAST_LEFT, slowness=max(1.0, length / every)
    )

    def attempt(halvings: int) -> Tensor:
        draws, info = sample(
            target, replace(config, step=config.step / 2**halvings), begun.start,
            config=RunConfig(0, length, length, batch, longest_move=1e4), seed=seed + 1,
            extras=begun.extras(pruning=pruning),
            progress=lambda update: progress(Update("pruning", update.done, update.total)),
            checkpoint=None if checkpoint is None else checkpoint.of_part(2 + 4 * halvings),
        )  # fmt: skip
        if len(info.chains) < begun.start.shape[0]:
            raise DivergedError("some chains")
        return draws.position[:, -1]

    last = first_that_stays(attempt)
    if last is None:
        raise DivergedError(
            f"sampler: chains diverged while weights were sent back to the source's, {ATTEMPTS} times, each with half "
            "the step of the one before. Set a smaller step or prune_share."
        )
    found = zero_smallest(last, matrices, share=share)
    at_once = zero_smallest(begun.start, matrices, share=share) == 0
    return found, float((at_once & (found != 0)).sum() / at_once.sum().clamp(min=1))


def _matrices(target: NetworkTarget) -> tuple[Matrix, ...]:
    """Return the hidden layers; biases are entries of their own in all but the first, which is one of coordinates."""
    inner = zip(target.spans[1:-1], target.shapes[1:-1], strict=True)
    return (target.spans[0], *((first, end, width) for (first, end), (_, width) in inner))


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
    flat = target.layers(position.flatten(0, 1))
    z, state = [q.reshape(chains, kept, *q.shape[1:]) for q in flat], target.state(position).cpu()
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
    prior: PointEstimateScales,
    draws: Draws,
    info: Info,
    figures: dict[str, float],
    *,
    unit_eV: float,
    seed: int,
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
    from_prior = {
        "prior.sigma_eV": torch.exp(prior.log_sigma(state)) * unit_eV,
        "prior.tau": tau,
        "prior.c": c,
    }
    every = thinned(recorded.shape[1])
    record = {f"trace.{name}": values[:, every] for name, values in judged.items()}
    record |= {name: value.numpy()[None] for name, value in from_prior.items()}
    return Diagnostics(found | figures, tuple(warnings), record=record)


def _agreement(quantities: dict[str, Floats]) -> tuple[dict[str, float], dict[str, float]]:
    rhat = {name: float(np.max(diagnostics.rhat(values))) for name, values in quantities.items()}
    ess = {name: float(np.min(diagnostics.ess_bulk(values))) for name, values in quantities.items()}
    figures = {f"rhat_{name}": value for name, value in rhat.items()} | {
        f"ess_{name}": v for name, v in ess.items()
    }
    return rhat, figures | {"rhat_max": max(rhat.values()), "ess_min": min(ess.values())}
