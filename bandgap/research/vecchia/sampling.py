"""Draws of the scales by the sampler of the settings, and the maximum by SGFS."""

from dataclasses import replace

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.vecchia.chains import Draws, at_mode
from bandgap.research.vecchia.first_order import sample_first_order
from bandgap.research.vecchia.langevin import sample_by_smaller_steps
from bandgap.research.vecchia.likelihood import Blocks
from bandgap.research.vecchia.metropolis import sample_metropolis
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.published import sample_published
from bandgap.research.vecchia.scoring import Mode
from bandgap.research.vecchia.settings import GPConfig
from bandgap.research.vecchia.stochastic_scoring import ScoringConfig, score_by_batches
from bandgap.research.vecchia.target import Target, log_likelihood


def sample_scales(
    blocks: Blocks,
    target: Target,
    mode: Mode,
    config: GPConfig,
    *,
    exact: bool,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> Draws:
    """Return draws of (eta, beta) by the sampler of the settings.

    `blocks` are Vecchia's sites, also if the likelihood is exact.
    """
    sampler = config.sampler if config.sampler != "auto" else "metropolis" if exact else "sgrld"
    if sampler == "none":
        return at_mode(mode)
    if sampler == "metropolis":
        return sample_metropolis(
            target, mode, config.metropolis, seed=seed, progress=progress, checkpoint=checkpoint
        )
    if sampler == "sgrld":
        langevin = replace(config.sgrld, batch=0) if exact else config.sgrld
        return sample_by_smaller_steps(
            target, mode, langevin, seed=seed, progress=progress, checkpoint=checkpoint
        )
    if sampler == "sgrld_published":
        start = (mode.eta, mode.beta)
        published = config.sgrld_published
        return sample_published(
            blocks, target, *start, published, seed=seed, progress=progress, checkpoint=checkpoint
        )
    first = config.first_order
    return sample_first_order(
        target,
        mode,
        first.sampler(sampler, target.sites.n),
        first.run(target.sites.n),
        seed=seed,
        chains=first.chains,
        control_variates=first.control_variates,
        progress=progress,
        checkpoint=checkpoint,
    )


def maximum_by_batches(
    target: Target,
    start: Floats,
    config: ScoringConfig,
    *,
    seed: int,
    progress: Progress,
    checkpoint: Checkpoint | None,
) -> Mode:
    """Return the end of SGFS from eta (k,) as a mode, evaluated with all sites and the best beta.

    Raises InputError if the information of a batch has no inverse.
    """
    beta = target.terms(start, np.zeros(target.sites.p), derivatives=False).beta_hat
    try:
        eta, beta, epochs = score_by_batches(
            target, start, beta, config, seed=seed, progress=progress, checkpoint=checkpoint
        )
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"sgfs: the information of a batch of {config.batch} sites has no inverse. Give larger "
            "batches."
        ) from error
    beta = target.terms(eta, beta, derivatives=False).beta_hat
    pull = target.pull(eta, beta)
    slope = pull.terms.grad_log_theta[target.free]
    return Mode(
        eta,
        beta,
        pull.precision,
        pull.terms.p4,
        log_likelihood(pull.terms, beta, n=target.sites.n) + target.log_prior(eta),
        pull.grad_eta,
        epochs,
        epochs < config.epochs,
        pull.terms.jitters,
        float(slope @ np.linalg.solve(pull.precision, slope)),
    )


def drawn_at_maximum(mode: Mode) -> Draws:
    """Return the end of SGFS as the only draw, with a warning if it has not converged."""
    if mode.converged or mode.squared_step <= 1.0:
        return at_mode(mode)
    warning = (
        f"SGFS ended after {mode.iterations} epochs with a step of "
        f"{np.sqrt(mode.squared_step):.2g} standard deviations remaining: the scales are not yet "
        "the most probable. Give more epochs or a longer step."
    )
    return at_mode(mode, warnings=(warning,))
