r"""SGRLD as published: metric and drift at the current state, from the current batch.

    beta' = beta + h p4^-1 (p3 - p4 beta) + sqrt(2 h) p4^(-1/2) z
    eta'  = eta + h [F^-1 (grad log p) + Gamma] + sqrt(2 h) F^(-1/2) z

eta is log theta, theta = (sigma2, rho, tau2) and nu if it is free. The paper does not say on which
scale theta moves; on its own scale steps would leave the positive numbers. The prior of eta
contains the Jacobian. Sums are scaled by n / batch, eta is updated at the new beta, and the step
decreases geometrically to a hundredth. This sampler is for comparison: metric and gradient of a
batch are correlated, and the chain diverges where F vanishes. `langevin` has a fixed metric.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge

from bandgap.foundation.config import Count, ProperShare, Settings, ShareAboveZero, WholeNumber
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.chains import Draws, run_chains
from bandgap.research.vecchia.drift import drift, metric_slopes
from bandgap.research.vecchia.engines import can_move
from bandgap.research.vecchia.langevin import FAR, batch_of, diverged
from bandgap.research.vecchia.likelihood import Blocks
from bandgap.research.vecchia.ordering import Floats, Ints
from bandgap.research.vecchia.target import Target

MIN_RELAXATIONS = 10  # below it, chains have not covered the posterior


@dataclass(frozen=True)
class PublishedConfig(Settings):
    """Settings of SGRLD as published; a quarter of the steps is warm-up.

    Parameters
    ----------
    step
        First step h. The paper has 1 / n, reduced until the first step is shorter than 1; 0.001
        because with a tenth of the steps of the paper it gives the same sum of steps as at n =
        10,000: 0.13 relaxation times after the warm-up.
    last_share
        Last step as a share of the first.
    batch
        Sites in a batch, 0 for all; the paper takes 500 above 10,000 sites.
    chains
        Number of chains.
    steps
        Steps of each chain. The paper has 20,000; 2,000 because a run should take minutes, and
        `step` is longer accordingly.
    """

    step: ProperShare = 1e-3
    last_share: ShareAboveZero = 0.01
    batch: WholeNumber = 250
    chains: Count = 4
    steps: Annotated[int, Ge(4)] = 2000

    @property
    def relaxations(self) -> float:
        """Sum of the steps after the warm-up, in units of the chain's relaxation time."""
        return sum(self.step_at(i) for i in range(self.steps // 4, self.steps))

    def step_at(self, iteration: int) -> float:
        """Return the step of an iteration, which decreases geometrically."""
        return float(self.step * self.last_share ** (iteration / self.steps))


def sample_published(
    blocks: Blocks,
    target: Target,
    eta: Floats,
    beta: Floats,
    config: PublishedConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws of chains that start at eta (k,) and beta (p,).

    `blocks` are the sites of `target`. A chain that diverges ends and is left out, with a warning.
    Raises DivergedError if all diverge.
    """
    k = eta.size
    p = beta.size
    sites = target.sites
    batched = (
        sites if isinstance(sites, BatchedSites) else BatchedSites(blocks, torch.device("cpu"))
    )
    warmup = config.steps // 4

    def advance(
        state: Floats, first: int, last: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        state = state.copy()
        path = np.empty((last - first, k + p))
        for i in range(first, last):
            if state[-1]:
                index = batch_of(blocks.n, config.batch, rng)
                new_state = published_step(
                    batched, target, state[:k], state[k:-1], index, h=config.step_at(i), rng=rng
                )
                state[:-1] = state[:-1] if new_state is None else np.concatenate(new_state)
                state[-1] = float(new_state is not None)
            path[i - first] = state[:-1]
        return state, path

    progress(Update("sampling the covariance", 0, config.steps))
    states = np.tile(np.concatenate([eta, beta, [1.0]]), (config.chains, 1))
    draws, ends = run_chains(
        states,
        advance,
        warmup,
        config.steps - warmup,
        seed=seed,
        settings=config,
        problem=(target,),
        movable=can_move(batched),
        progress=progress,
        checkpoint=checkpoint,
    )
    alive = ends[:, -1] > 0
    warnings = diverged(alive, step=config.step)
    if config.relaxations < MIN_RELAXATIONS:
        warnings = (
            *warnings,
            f"The steps after the warm-up add up to {config.relaxations:.2g} relaxation times of "
            f"the chains. Below {MIN_RELAXATIONS}, draws are narrower than the posterior. Give a "
            "longer step, a larger last share or more steps.",
        )
    return Draws(
        draws[alive, :, :k], draws[alive, :, k:], {"divergences": float((~alive).sum())}, warnings
    )


def published_step(
    sites: BatchedSites,
    target: Target,
    eta: Floats,
    beta: Floats,
    index: Ints | None,
    *,
    h: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats] | None:
    """Return eta (k,) and beta (p,) after a step of length h, None if it diverges.

    It diverges if the drift is longer than `FAR`, or F has no inverse in double precision.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            terms = target.terms(eta, beta, index, derivatives=False)
            beta = beta + h * np.linalg.solve(terms.p4, terms.grad_beta)
            beta = beta + np.sqrt(2 * h) * _inverse_root(terms.p4) @ rng.standard_normal(beta.size)
            pull = target.pull(eta, beta, index)
            fisher = pull.terms.fisher_log_theta[np.ix_(target.free, target.free)]
            slopes = metric_slopes(sites, index, target.theta(eta), free_nu=target.nu is None)
            move = h * (np.linalg.solve(fisher, pull.grad_eta) + drift(fisher, slopes))
            noise = np.sqrt(2 * h) * _inverse_root(fisher) @ rng.standard_normal(eta.size)
            is_valid = np.sqrt(move @ fisher @ move) < FAR and np.isfinite(noise).all()
    except (InputError, np.linalg.LinAlgError):
        # A parameter is 0 or infinite, or a matrix has no Cholesky factor.
        return None
    return (eta + move + noise, beta) if is_valid else None


def _inverse_root(precision: Floats) -> Floats:
    """Return S with S S' = precision^-1."""
    result: Floats = np.linalg.inv(np.linalg.cholesky(precision)).T
    return result
