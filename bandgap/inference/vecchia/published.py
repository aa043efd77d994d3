r"""SGRLD as it was published: the metric and its drift at the current state and from the current batch.

    beta' = beta + h p4^-1 (p3 - p4 beta) + sqrt(2 h) p4^(-1/2) z
    eta'  = eta + h [F^-1 (grad log p) + Gamma] + sqrt(2 h) F^(-1/2) z

Sums are scaled by n / batch, eta moves at the new beta, the step falls geometrically to a hundredth. For comparison:
the batch's metric and gradient are correlated, and where F vanishes the chain runs away; `langevin` freezes the metric.
"""

from dataclasses import dataclass

import numpy as np
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.vecchia.batched import BatchedSites
from bandgap.inference.vecchia.chains import Draws, run_chains
from bandgap.inference.vecchia.drift import drift, metric_slopes
from bandgap.inference.vecchia.langevin import FAR, batch_of, diverged
from bandgap.inference.vecchia.likelihood import Blocks
from bandgap.inference.vecchia.ordering import Floats
from bandgap.inference.vecchia.target import Target


@dataclass(frozen=True)
class PublishedConfig:
    """First step, its last as a share of it, sites a batch (0: all), chains, steps; a quarter of them is warm-up."""

    step: float = 1e-3
    last_share: float = 0.01
    batch: int = 250
    chains: int = 4
    steps: int = 2000

    def __post_init__(self) -> None:
        if not (0 < self.step < 1 and 0 < self.last_share <= 1 and self.chains >= 1 and self.steps >= 4):
            raise ConfigError(
                f"sgrld as published: step {self.step}, last share {self.last_share}, {self.chains} chains, "
                f"{self.steps} steps. Accepted: a step below 1, a share in (0, 1], 1 chain and 4 steps or more."
            )


def sample_published(
    blocks: Blocks,
    target: Target,
    eta: Floats,
    beta: Floats,
    config: PublishedConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
) -> Draws:
    """Return draws of chains that start at eta (k,), beta (p,); `target` has `blocks` as sites, by either engine."""
    k, p, free = eta.size, beta.size, target.free
    sites = target.sites
    batched = sites if isinstance(sites, BatchedSites) else BatchedSites(blocks, torch.device("cpu"))
    warmup = config.steps // 4

    def advance(state: Floats, first: int, last: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        here, coefficients, alive = state[:k].copy(), state[k : k + p].copy(), bool(state[-1])
        path = np.empty((last - first, k + p))
        for i in range(first, last):
            h = config.step * config.last_share ** (i / config.steps)
            if alive:
                index = batch_of(blocks.n, config.batch, rng)
                found = target.terms(here, coefficients, index, derivatives=False)
                root = np.linalg.inv(np.linalg.cholesky(found.p4)).T
                coefficients = coefficients + h * np.linalg.solve(found.p4, found.grad_beta)
                coefficients = coefficients + np.sqrt(2 * h) * root @ rng.standard_normal(p)
                pull = target.pull(here, coefficients, index)
                fisher = pull.terms.fisher_log_theta[np.ix_(free, free)]
                slopes = metric_slopes(batched, index, target.theta(here))[np.ix_(free, free, free)]
                move = h * (np.linalg.solve(fisher, pull.grad_eta) + drift(fisher, slopes))
                alive = bool(np.isfinite(move).all() and np.sqrt(move @ fisher @ move) < FAR)
            if alive:
                here = (
                    here + move + np.sqrt(2 * h) * np.linalg.inv(np.linalg.cholesky(fisher)).T @ rng.standard_normal(k)
                )
            path[i - first] = np.concatenate([here, coefficients])
        return np.concatenate([here, coefficients, [alive]]), path

    progress(Update("sampling the covariance", 0, config.steps))
    states = np.tile(np.concatenate([eta, beta, [1.0]]), (config.chains, 1))
    draws, ends = run_chains(states, advance, warmup, config.steps - warmup, seed=seed, progress=progress)
    alive = ends[:, -1] > 0
    warnings = diverged(alive, step=config.step)
    return Draws(draws[alive, :, :k], draws[alive, :, k:], {"divergences": float((~alive).sum())}, warnings)
