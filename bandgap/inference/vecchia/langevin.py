r"""Stochastic-gradient Riemannian Langevin dynamics (SGRLD) for a Vecchia posterior, as it is best run.

    phi' = phi + h G^-1 g + sqrt(2 h) G^(-1/2) z,     phi = (eta, beta)

with G the observed information at the mode, frozen, so that there is no drift from its derivative; h is in Newton
units, and 1 / h steps make one independent draw. g comes from a batch of sites with control variates: the gradient of
all sites expanded about the mode to first order, and what the batch's own gradient has beyond its expansion. On a
normal density the variance is 1 / (1 - h / 2) times the true one, plus what is left of the batch's noise.

The observed information and not the Fisher information: where the nugget is near 0 (features of molecules) that is up
to 6 times too small in its direction, and steps in its units are as many times too long. Such a posterior is itself far
from normal: with 4,000 of QM9's molecules it is 1.3 times as wide as the observed information says, by Metropolis on
all sites and by these steps alike (standard deviations within 6 %).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import (
    ATTEMPTS,
    DivergedError,
    first_that_stays,
    part_of_checkpoint,
)
from bandgap.inference.vecchia.chains import Draws, at_mode, run_chains
from bandgap.inference.vecchia.engines import can_move
from bandgap.inference.vecchia.expansion import expand, observed_information
from bandgap.inference.vecchia.ordering import Floats, Ints
from bandgap.inference.vecchia.scoring import Mode
from bandgap.inference.vecchia.target import Target

FAR = 30.0  # norm of h G^-1 g in posterior standard deviations, beyond which a chain has diverged


Gradient = Callable[[Floats, np.random.Generator], Floats]
Begin = Callable[[Floats, np.random.Generator], Gradient]
"""(state, rng) -> the gradient's estimate for the next few steps of a chain."""


class ChainLengths(Protocol):
    """How many chains there are, and how long."""

    @property
    def chains(self) -> int: ...
    @property
    def warmup(self) -> int: ...
    @property
    def draws(self) -> int: ...
    @property
    def thin(self) -> int: ...


class Lengths(ChainLengths, Protocol):
    """What the steps ask of a sampler's settings."""

    @property
    def step(self) -> float: ...


class BatchLengths(ChainLengths, Protocol):
    """What settings of chains of batches have in common; without a step the sampler takes its own."""

    @property
    def step(self) -> float | None: ...
    @property
    def batch(self) -> int: ...


@dataclass(frozen=True)
class LangevinConfig:
    """Step h, sites a batch (0: all), chains, steps of warm-up and of draws; every `thin`-th draw is kept."""

    step: float = 0.05
    batch: int = 250
    control_variates: bool = True
    chains: int = 4
    warmup: int = 400
    draws: int = 1600
    thin: int = 4

    def __post_init__(self) -> None:
        check_lengths("sgrld", self, 0 < self.step < 2, accepted="a step between 0 and 2")


def check_lengths(what: str, config: BatchLengths, step_is_sound: bool, *, accepted: str) -> None:
    """Raise ConfigError where a sampler's step or lengths cannot be, naming it `what`."""
    whole = (
        min(config.chains, config.draws, config.thin) >= 1 and min(config.batch, config.warmup) >= 0
    )
    if not (step_is_sound and whole and config.draws % config.thin == 0):
        raise ConfigError(
            f"{what}: step {config.step}, batch {config.batch}, {config.chains} chains, {config.warmup} warm-up, "
            f"{config.draws} draws, thin {config.thin}. Accepted: {accepted}, whole numbers from 1 (batch and warm-up "
            "from 0), draws a multiple of thin."
        )


def batch_of(n: int, size: int, rng: np.random.Generator) -> Ints | None:
    """Return `size` of n places without replacement, None (all) where the batch is 0 or holds them all."""
    if not 0 < size < n:
        return None
    return np.asarray(rng.choice(n, size, replace=False, shuffle=False), dtype=np.int64)


def sample_langevin(
    target: Target,
    mode: Mode,
    config: LangevinConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws from the posterior of (eta, beta) near `mode`, whose precisions are the metric.

    A chain that diverges ends and is left out, which a warning says; raises DivergedError where all do.
    """
    k, n = mode.eta.size, target.sites.n
    mean = np.concatenate([mode.eta, mode.beta])
    variates = expand(target, mode) if config.control_variates and 0 < config.batch < n else None
    metric = observed_information(target, mode, variates)

    def gradient(phi: Floats, rng: np.random.Generator) -> Floats:
        index = batch_of(n, config.batch, rng)
        try:
            here = target.pull(phi[:k], phi[k:], index)
        except InputError:  # parameters of no density: the chain has diverged
            return np.full(phi.size, np.nan)
        found = np.concatenate([here.grad_eta, here.grad_beta])
        return (
            found if index is None or variates is None else found + variates.correction(phi, index)
        )

    rng = np.random.default_rng([seed, 0x56D1])
    kept, figures, warnings = run_langevin(
        lambda phi, rng: gradient,
        mean,
        metric,
        config,
        problem=(target, mode),
        seed=seed,
        rng=rng,
        movable=can_move(target.sites),
        progress=progress,
        checkpoint=checkpoint,
    )
    return Draws(kept[..., :k], kept[..., k:], figures, warnings)


def run_langevin(
    begin: Begin,
    centre: Floats,
    metric: Floats,
    config: Lengths,
    *,
    problem: tuple[object, ...],
    seed: int,
    rng: np.random.Generator,
    movable: bool = True,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Floats, dict[str, float], tuple[str, ...]]:
    """Return draws (chain, draw, dim) of Langevin steps in a frozen metric (dim, dim), a figure, and warnings.

    Starts are drawn by `rng` about `centre` (dim,) as widely as the metric says. `problem` is what gradients come
    from: with the settings it tells whether a checkpoint is of these chains. A chain that diverges ends and is
    left out, which a warning says; raises DivergedError where all do.
    """
    inverse = np.linalg.inv(metric)
    root, dim, h = np.linalg.cholesky(inverse), centre.size, config.step
    noise = np.sqrt(2 * h)

    def advance(
        state: Floats, first: int, last: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        phi, alive, path = state[:-1].copy(), bool(state[-1]), np.empty((last - first, dim))
        gradient = begin(phi, rng)
        for i in range(last - first):
            if alive:
                g = gradient(phi, rng)
                move = inverse @ g
                far = h * np.sqrt(g @ move)
                alive = bool(np.isfinite(far) and far < FAR)
            if alive:
                phi = phi + h * move + noise * root @ rng.standard_normal(dim)
            path[i] = phi
        return np.append(phi, float(alive)), path

    states = [
        np.append(centre + root @ rng.standard_normal(dim), 1.0) for _ in range(config.chains)
    ]
    progress(Update("sampling the covariance", 0, config.warmup + config.draws))
    draws, ends = run_chains(
        np.array(states),
        advance,
        config.warmup,
        config.draws,
        seed=seed,
        settings=config,
        problem=problem,
        movable=movable,
        progress=progress,
        checkpoint=checkpoint,
    )
    alive = ends[:, -1] > 0
    warnings = diverged(alive, step=h)
    return (
        draws[alive, config.thin - 1 :: config.thin],
        {"divergences": float((~alive).sum())},
        warnings,
    )


def sample_by_smaller_steps(
    target: Target,
    mode: Mode,
    config: LangevinConfig,
    *,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws as `sample_langevin` does; where all chains diverge, with half the step and twice the batch.

    Where that does not help after `ATTEMPTS` times the mode is the only draw, which a warning says.
    """

    def attempt(halvings: int) -> Draws:
        own = replace(config, step=config.step / 2**halvings, batch=config.batch * 2**halvings)
        part = part_of_checkpoint(checkpoint, halvings)
        return sample_langevin(target, mode, own, seed=seed, progress=progress, checkpoint=part)

    found = first_that_stays(attempt)
    return found or at_mode(mode, **all_diverged(config))


def all_diverged(config: Lengths) -> dict[str, Any]:
    """Return figures and warnings where chains diverged at every step that `first_that_stays` tried."""
    words = (
        f"All chains diverged, down to a step of {config.step / 2 ** (ATTEMPTS - 1):g}: the scales are taken as known "
        "at their likeliest values."
    )
    return {"figures": {"divergences": float(config.chains)}, "warnings": (words,)}


def diverged(alive: NDArray[np.bool_], *, step: float) -> tuple[str, ...]:
    """Return a sentence where some chains (chain,) ended early; raises DivergedError where all did."""
    lost, n = int((~alive).sum()), len(alive)
    if lost == n:
        raise DivergedError(
            f"all {n} chains diverged at a step of {step:g}. Give a smaller step or a larger batch."
        )
    if not lost:
        return ()
    return (
        f"{lost} of {n} chains diverged and were left out. Give a smaller step (now {step:g}) or a larger batch.",
    )
