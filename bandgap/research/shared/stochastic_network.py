"""A network sampled by stochastic-gradient MCMC: step, runs, posterior and diagnostics."""

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
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Diagnostics, Floats, NetworkPosterior
from bandgap.posterior.protocol import PRIOR_DRAWS, thinned
from bandgap.research.shared.stochastic_start import ChainStart, SgSampler, find_start, sampler_for
from bandgap.research.stochastic_gradient.gradients import control_variate
from bandgap.research.stochastic_gradient.halving import sample_and_halve
from bandgap.research.stochastic_gradient.network_target import NetworkTarget
from bandgap.research.stochastic_gradient.outcomes import Draws, Info, RunConfig
from bandgap.research.stochastic_gradient.protocol import SamplerWarning
from bandgap.research.stochastic_gradient.pruning import Matrix, Pruning, zero_smallest
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.transfer.shared.method import Fitting

WATCHED_ROWS = 64  # training rows; f at these rows tells whether chains agree
RECORDS = 400  # of scales and f in a chain
PRUNINGS = 20  # at least, before the last
LAST_GAP = 0.01  # between the share and its full value, at the last of them


def sample_stochastically(
    net: WhitenedNetwork,
    prior: PointEstimateScales,
    standardiser: Standardiser,
    fitting: Fitting,
    *,
    sampler: SgSampler,
    prune_share: float,
) -> NetworkPosterior:
    """Sample weights and scales by mini-batches.

    Parameters
    ----------
    net
        The whitened network with its training rows.
    prior
        Prior of the scales.
    standardiser
        Scales of features and gaps.
    sampler
        Settings of the sampler.
    prune_share
        Share of each hidden layer's weights that stay at the source's.
    seed
        Seed.
    progress
        Progress callback.
    checkpoint
        Files of an interrupted run, or None.

    Returns
    -------
    NetworkPosterior
        The stored draws.

    Raises
    ------
    DivergedError
        When all chains diverge at every step that is tried.
    """
    batch = min(sampler.batch_size, net.n_rows)
    chain_start = find_start(
        net,
        prior,
        sampler,
        batch=batch,
        turn=prune_share == 0,
        seed=fitting.seed,
        progress=fitting.progress,
        checkpoint=fitting.checkpoint,
    )
    target = chain_start.target
    start = chain_start.start
    config = sampler_for(
        sampler,
        curvature=chain_start.curvature,
        noise=chain_start.noise(batch),
        slope=(net.n_rows * batch) ** -0.5,
    )
    watched = (
        torch.linspace(0, net.n_rows - 1, min(WATCHED_ROWS, net.n_rows)).long().to(start.device)
    )

    def record(position: Tensor) -> Tensor:
        return torch.cat([target.state(position), target.values(position, watched).double()], 1)

    mask = None
    figures = {"step": config.step, "largest_curvature": chain_start.curvature}
    if prune_share > 0:
        start, reborn_share = _pruned(
            chain_start,
            config,
            sampler,
            share=prune_share,
            seed=fitting.seed,
            progress=fitting.progress,
            checkpoint=fitting.checkpoint,
        )
        mask = (start != 0).to(start)
        figures["reborn_share"] = reborn_share
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
    variance = None if sampler.control else chain_start.variance
    extras = chain_start.extras(record=record, control=control, mask=mask, variance=variance)

    def attempt(halvings: int) -> tuple[Draws, Info]:
        first, second = (
            None if fitting.checkpoint is None else fitting.checkpoint.of_part(k + 4 * halvings)
            for k in (1, 3)
        )
        smaller_step = replace(config, step=config.step / 2**halvings)
        figures["step"] = smaller_step.step
        if sampler.halve:
            return sample_and_halve(
                target,
                smaller_step,
                start.reshape(shape),
                config=run,
                seed=fitting.seed,
                extras=extras,
                progress=fitting.progress,
                checkpoints=(first, second),
            )
        return sample(
            target,
            smaller_step,
            start.reshape(shape),
            config=run,
            seed=fitting.seed,
            extras=extras,
            progress=fitting.progress,
            checkpoint=first,
        )

    result = first_that_stays(attempt)
    if result is None:
        raise DivergedError(
            f"sampler: all chains diverged, down to a step of {figures['step']:.3g}. Set a smaller "
            "step, or take a longer search."
        )
    draws, info = result
    if figures["step"] < config.step:
        text = (
            f"All chains diverged at a step of {config.step:.3g} and were restarted, the last time "
            f"with a step of {figures['step']:.3g}."
        )
        info = replace(info, warnings=(*info.warnings, SamplerWarning("diverged", text)))
    figures["zero_share"] = info.zero_share
    return _posterior(target, prior, draws, info, standardiser, figures=figures, seed=fitting.seed)


def _pruned(
    chain_start: ChainStart,
    config: AnyConfig,
    sampler: SgSampler,
    *,
    share: float,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> tuple[Tensor, float]:
    """Run as long as a warm-up, and set the smallest moves of hidden layers to zero repeatedly.

    They may move again (`pruning`). The share rises to its full value at the end, which is exact
    for every layer. Where a chain diverges, all chains restart with half the step.

    Returns
    -------
    tuple
        Positions (chain, dim), and the share of the weights a single pruning would have removed
        that are not removed.
    """
    target = chain_start.target
    batch = min(sampler.batch_size, target.n_rows)
    matrices = _matrices(target)
    length = max(1, sampler.warmup)
    every = max(1, min(-(-target.n_rows // batch), length // PRUNINGS))
    pruning = Pruning(
        matrices, every, share=share, decay=LAST_GAP, slowness=max(1.0, length / every)
    )

    def attempt(halvings: int) -> Tensor:
        draws, info = sample(
            target,
            replace(config, step=config.step / 2**halvings),
            chain_start.start,
            config=RunConfig(0, length, length, batch, longest_move=1e4),
            seed=seed + 1,
            extras=chain_start.extras(pruning=pruning),
            progress=lambda update: progress(Update("pruning", update.done, update.total)),
            checkpoint=None if checkpoint is None else checkpoint.of_part(2 + 4 * halvings),
        )
        if len(info.chains) < chain_start.start.shape[0]:
            raise DivergedError("some chains")
        return draws.position[:, -1]

    last = first_that_stays(attempt)
    if last is None:
        raise DivergedError(
            f"sampler: chains diverged while weights were pruned, {ATTEMPTS} times, each with half "
            "the step of the one before. Set a smaller step or prune_share."
        )
    pruned = zero_smallest(last, matrices, share=share)
    single_pruning = zero_smallest(chain_start.start, matrices, share=share) == 0
    n_reborn = (single_pruning & (pruned != 0)).sum()
    return pruned, float(n_reborn / single_pruning.sum().clamp(min=1))


def _matrices(target: NetworkTarget) -> tuple[Matrix, ...]:
    """Return the hidden layers, for pruning.

    Biases are separate entries in all but the first, whose entries are coordinates.
    """
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
    net = target.net
    position = draws.position
    chains, draws_of_chain = position.shape[:2]
    flat_z = target.layers(position.flatten(0, 1))
    z = [layer.reshape(chains, draws_of_chain, *layer.shape[1:]) for layer in flat_z]
    state = target.state(position).cpu()
    scales = prior.scales(state.flatten(0, 1))
    scale = scales.s.reshape(chains, draws_of_chain, -1).float()[..., None, None]
    upper = [net.theta_hat[i].cpu() + scale[:, :, i] * z[i].cpu() for i in range(1, len(z))]
    tau, c = prior.tau_and_weights(state)
    return NetworkPosterior(
        standardiser=standardiser,
        theta_hat_1=net.theta_hat[0].cpu(),
        basis=net.basis.cpu(),
        coordinates=scale[:, :, 0] * z[0].cpu(),
        scale_1=scale[:, :, 0, 0, 0],
        upper=tuple(upper),
        sigma=scales.sigma.reshape(chains, draws_of_chain).numpy(),
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
    recorded = draws.recorded.cpu().numpy()
    width = int(prior.units.shape[0])
    judged = prior.judged(recorded[..., :width])
    fitted = recorded[..., width:]
    run_figures = {"chains": float(len(info.chains)), "divergences": float(info.divergences)}
    warnings = [warning.text for warning in info.warnings]
    if recorded.shape[0] > 1 and recorded.shape[1] >= 8:
        rhat, agreement = _agreement({**judged, "predictions": fitted})
        run_figures |= agreement
        warning = disagreement(rhat)
        warnings += [] if warning is None else [warning]
    state = prior.draw(PRIOR_DRAWS, generator=torch.Generator().manual_seed(seed))
    tau, c = prior.tau_and_weights(state)
    from_prior = {
        "prior.sigma_eV": torch.exp(prior.log_sigma(state)) * unit_eV,
        "prior.tau": tau,
        "prior.c": c,
    }
    recorded_draws = thinned(recorded.shape[1])
    record = {f"trace.{name}": values[:, recorded_draws] for name, values in judged.items()}
    record |= {name: value.numpy()[None] for name, value in from_prior.items()}
    return Diagnostics(run_figures | figures, tuple(warnings), record=record)


def _agreement(quantities: dict[str, Floats]) -> tuple[dict[str, float], dict[str, float]]:
    rhat = {name: float(np.max(diagnostics.rhat(values))) for name, values in quantities.items()}
    ess = {name: float(np.min(diagnostics.ess_bulk(values))) for name, values in quantities.items()}
    figures = {f"rhat_{name}": value for name, value in rhat.items()}
    figures |= {f"ess_{name}": value for name, value in ess.items()}
    return rhat, figures | {"rhat_max": max(rhat.values()), "ess_min": min(ess.values())}
