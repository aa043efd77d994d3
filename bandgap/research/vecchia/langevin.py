r"""Stochastic-gradient Riemannian Langevin dynamics (SGRLD) in a fixed metric.

    phi' = phi + h G^-1 g + sqrt(2 h) G^(-1/2) z,     phi = (eta, beta)

G is the observed information at the mode. It is fixed, so there is no drift from its derivative. h
is in Newton units: 1 / h steps make one independent draw. g is the gradient of a batch of sites
with control variates: the gradient of all sites expanded about the mode to first order, plus the
scaled difference between the batch's gradient and its expansion. On a normal density the variance
is 1 / (1 - h / 2) times the true one, plus the remaining noise of the batches.

The metric is not the Fisher information. If the nugget is near 0, as with features of molecules,
the Fisher information is up to 6 times too small in its direction, and steps in its units are too
long by that factor.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from bandgap.foundation.config import Count, Settings, WholeNumber
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import (
    ATTEMPTS,
    DivergedError,
    first_that_stays,
    part_of_checkpoint,
)
from bandgap.research.vecchia.chains import Draws, at_mode, check_thin, run_chains
from bandgap.research.vecchia.engines import can_move
from bandgap.research.vecchia.expansion import expand, observed_information
from bandgap.research.vecchia.ordering import Floats, Ints
from bandgap.research.vecchia.scoring import Mode
from bandgap.research.vecchia.target import Target

# Norm of h G^-1 g in posterior standard deviations beyond which a chain has diverged.
FAR = 30.0


Gradient = Callable[[Floats, np.random.Generator], Floats]
# (state, rng) -> the estimate of the gradient for the next steps of a chain.
Begin = Callable[[Floats, np.random.Generator], Gradient]


class Lengths(Protocol):
    """Settings of Langevin chains."""

    @property
    def step(self) -> float: ...
    @property
    def chains(self) -> int: ...
    @property
    def warmup(self) -> int: ...
    @property
    def draws(self) -> int: ...
    @property
    def thin(self) -> int: ...


@dataclass(frozen=True)
class LangevinConfig(Settings):
    """Step h, sites a batch (0: all), chains and steps; every `thin`-th draw is kept."""

    step: Annotated[float, Interval(gt=0, lt=2)] = 0.05
    batch: WholeNumber = 250
    control_variates: bool = True
    chains: Count = 4
    warmup: WholeNumber = 400
    draws: Count = 1600
    thin: Count = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thin("sgrld", draws=self.draws, thin=self.thin)


def batch_of(n: int, size: int, rng: np.random.Generator) -> Ints | None:
    """Return `size` of n places without replacement; None (all) for a size of 0 or n or more."""
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
    """Return draws from the posterior of (eta, beta) near `mode`.

    A chain that diverges ends and is left out, with a warning. Raises DivergedError if all diverge.
    """
    k = mode.eta.size
    n = target.sites.n
    mean = np.concatenate([mode.eta, mode.beta])
    variates = expand(target, mode) if config.control_variates and 0 < config.batch < n else None
    metric = observed_information(target, mode, variates)

    def gradient(phi: Floats, rng: np.random.Generator) -> Floats:
        index = batch_of(n, config.batch, rng)
        try:
            pull = target.pull(phi[:k], phi[k:], index)
        except InputError:  # no density here: the chain has diverged
            return np.full(phi.size, np.nan)
        estimate = np.concatenate([pull.grad_eta, pull.grad_beta])
        if index is None or variates is None:
            return estimate
        return estimate + variates.correction(phi, index)

    rng = np.random.default_rng([seed, 0x56D1])
    path, figures, warnings = run_langevin(
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
    return Draws(path[..., :k], path[..., k:], figures, warnings)


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
    """Return draws (chain, draw, dim) of Langevin steps in a fixed metric, figures and warnings.

    A chain that diverges ends and is left out, with a warning.

    Parameters
    ----------
    begin
        Returns the estimate of the gradient for the next steps of a chain.
    centre
        Mean of the starts, (dim,).
    metric
        Precision of the starts and metric of the steps, (dim, dim).
    config
        Step and lengths.
    problem
        Everything that gradients depend on. With the settings it identifies the chains of a
        checkpoint.
    seed, rng
        Random numbers of the chains, and of the starts.
    movable
        Whether other machines can compute the chains.

    Raises
    ------
    DivergedError
        If all chains diverge.
    """
    inverse = np.linalg.inv(metric)
    root = np.linalg.cholesky(inverse)
    dim = centre.size
    h = config.step
    noise = np.sqrt(2 * h)

    def advance(
        state: Floats, first: int, last: int, rng: np.random.Generator
    ) -> tuple[Floats, Floats]:
        phi = state[:-1].copy()
        alive = bool(state[-1])
        path = np.empty((last - first, dim))
        gradient = begin(phi, rng)
        for i in range(last - first):
            if alive:
                g = gradient(phi, rng)
                move = inverse @ g
                step_length = h * np.sqrt(g @ move)
                alive = bool(np.isfinite(step_length) and step_length < FAR)
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
    """Return draws of `sample_langevin`, with smaller steps and larger batches if all diverge.

    If chains still diverge after `ATTEMPTS` attempts, the mode is the only draw, with a warning.
    """

    def attempt(halvings: int) -> Draws:
        shorter = replace(config, step=config.step / 2**halvings, batch=config.batch * 2**halvings)
        part = part_of_checkpoint(checkpoint, halvings)
        return sample_langevin(target, mode, shorter, seed=seed, progress=progress, checkpoint=part)

    outcome = first_that_stays(attempt)
    return outcome or at_mode(mode, **all_diverged(config))


def all_diverged(config: Lengths) -> dict[str, Any]:
    """Return figures and warnings for chains that diverged at every step."""
    warning = (
        f"All chains diverged, down to a step of {config.step / 2 ** (ATTEMPTS - 1):g}: the scales "
        "are fixed at their most probable values."
    )
    return {"figures": {"divergences": float(config.chains)}, "warnings": (warning,)}


def diverged(alive: NDArray[np.bool_], *, step: float) -> tuple[str, ...]:
    """Return a warning if some chains (chain,) diverged; raises DivergedError if all did."""
    n_diverged = int((~alive).sum())
    n = len(alive)
    if n_diverged == n:
        raise DivergedError(
            f"all {n} chains diverged at a step of {step:g}. Give a smaller step or a larger batch."
        )
    if not n_diverged:
        return ()
    return (
        f"{n_diverged} of {n} chains diverged and were left out. Give a smaller step (now "
        f"{step:g}) or a larger batch.",
    )
