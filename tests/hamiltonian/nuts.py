r"""The No-U-Turn sampler for any log density over vectors, several chains as one batch.

Hoffman and Gelman (2014) in the multinomial form of Betancourt (2017), appendix A: a trajectory doubles, forwards or
backwards in time, until it turns back on itself; a state is kept with weight exp(-H), by progressive sampling within a
branch and biased towards the new branch between branches. A piece of trajectory with ends a and b and sum of momenta
rho turns where p_a' M^-1 rho or p_b' M^-1 rho is not positive (Betancourt, 2017, appendix A.4.2); joining two pieces is
also checked across the seam, each piece with the first momentum of the other, as Stan does.

No recursion: the 2^k leaves of a branch are made one after the other and joined like the digits of a binary counter, so
that a branch of depth k keeps k pieces. Chains that still grow are always at the same leaf of the same depth; a chain
that has finished, turned or diverged waits, its state masked.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from tests.hamiltonian.chain_loop import Statistics, Tuning, run_chains
from tests.hamiltonian.hmc import HmcInfo, tuned
from tests.hamiltonian.leapfrog import (
    DIVERGENCE_ENERGY,
    LogDensity,
    Phase,
    Point,
    draw_momentum,
    energy,
    leapfrog_step,
    select_phase,
    select_point,
)
from tests.hamiltonian.windows import AdaptationConfig

# leaves between two questions whether any chain still grows: on a GPU asking waits for all that was queued
LEAVES_PER_LOOK = {"cpu": 1, "cuda": 16}


@dataclass(frozen=True)
class NutsConfig:
    """Length of the run, largest depth of a tree (2^depth - 1 leapfrog steps), acceptance wanted, adaptation."""

    warmup: int = 500
    draws: int = 500
    max_depth: int = 10
    start_step: float = 0.1
    target_accept: float = 0.8
    adaptation: AdaptationConfig = AdaptationConfig(mass="diagonal")

    def __post_init__(self) -> None:
        if (
            min(self.warmup, self.draws, self.max_depth) < 1
            or not 0 < self.target_accept < 1
            or self.start_step <= 0
        ):
            raise ConfigError(
                f"nuts: {self}. Accepted: at least one warm-up iteration, draw and doubling, a start step above 0 and "
                "a target acceptance between 0 and 1."
            )


@dataclass(frozen=True, eq=False)
class NutsInfo(HmcInfo):
    """As for HMC; `accept` is the mean over a trajectory, `depth` the number of doublings that counted."""

    depth: Tensor  # (chain, draw)


def sample(
    log_density: LogDensity,
    initial: Tensor,
    *,
    config: NutsConfig,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Tensor, NutsInfo]:
    """Return draws (chain, draw, dimension) from `log_density`, started at `initial` (chain, dimension).

    A trajectory ends where the energy has risen by more than 1000 or is not finite, and counts as divergent. With
    `checkpoint` the run goes on from its file where there is one. Raises InputError where a start has no density and
    ArtifactError on a file of another run.
    """

    def move(at: Point, tuning: Tuning) -> tuple[Point, Statistics]:
        return transition(log_density, at, tuning=tuning, max_depth=config.max_depth)

    run = run_chains(
        log_density,
        initial,
        name="nuts",
        settings=config,
        move=move,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )
    return run.draws, NutsInfo(**run.statistics, **tuned(run))


def transition(
    log_density: LogDensity, at: Point, *, tuning: Tuning, max_depth: int
) -> tuple[Point, Statistics]:
    """Make one transition of every chain.

    Random numbers are taken in this order: momenta; then for every depth one number a chain for the direction, one for
    every leaf (leaf, chain), and one a chain for the choice between trajectory and new branch.
    """
    inverse_mass = tuning.inverse_mass
    start = Phase(at, draw_momentum(at.q, inverse_mass, generator=tuning.generator))
    before = energy(start, inverse_mass)
    left = right = start
    span, chosen, log_weight = (
        _Span(1, start.p, start.p, start.p),
        Choice(at, before),
        torch.zeros_like(before),
    )
    growing = torch.ones_like(before, dtype=torch.bool)
    divergent, accept = ~growing, torch.zeros_like(before)
    n_steps = depth = torch.zeros_like(before, dtype=torch.int64)
    for level in range(max_depth):
        forward = _uniform(before, (), tuning.generator) < 0.5
        branch = _branch(
            log_density,
            select_phase(forward, right, left),
            tuning=tuning,
            signed_step=torch.where(forward, tuning.step, -tuning.step),
            level=level,
            before=before,
            growing=growing,
        )
        divergent, accept, n_steps = (
            divergent | branch.divergent,
            accept + branch.accept,
            n_steps + branch.n_steps,
        )
        take = branch.whole & (
            torch.log(_uniform(before, (), tuning.generator)) < branch.log_weight - log_weight
        )
        chosen, log_weight = (
            branch.choice.where(take, chosen),
            torch.logaddexp(log_weight, branch.log_weight),
        )
        left = select_phase(branch.whole & ~forward, branch.end, left)
        right = select_phase(branch.whole & forward, branch.end, right)
        span, turned = _join(span.facing(forward), branch.span, inverse_mass)
        span = span.facing(forward)  # back to left and right
        depth, growing = depth + branch.whole.long(), branch.whole & ~turned
        if not bool(growing.any()):
            break
    statistics = {
        "accept": accept / n_steps,
        "energy": chosen.energy,
        "divergent": divergent,
        "n_steps": n_steps,
        "depth": depth,
    }
    return chosen.at, statistics


@dataclass(frozen=True, eq=False)
class Choice:
    """The state kept so far, with its energy (chain,)."""

    at: Point
    energy: Tensor

    def where(self, mask: Tensor, other: "Choice") -> "Choice":
        """Return this one for the marked chains (chain,), `other` for the rest."""
        return Choice(
            select_point(mask, self.at, other.at), torch.where(mask, self.energy, other.energy)
        )


@dataclass(frozen=True, eq=False)
class _Span:
    """A piece of trajectory: number of states, momenta at its two ends and their sum over it, (chain, dimension)."""

    size: int
    first: Tensor
    last: Tensor
    total: Tensor

    def facing(self, forward: Tensor) -> "_Span":
        """Return it with the ends exchanged for the chains (chain,) that do not go forward."""
        ahead = forward[:, None]
        first, last = (
            torch.where(ahead, self.first, self.last),
            torch.where(ahead, self.last, self.first),
        )
        return _Span(self.size, first, last, self.total)


def _join(a: _Span, b: _Span, inverse_mass: Tensor) -> tuple[_Span, Tensor]:
    """Return the piece made of a and then b, and whether it turns (chain,)."""
    total = a.total + b.total
    turned = _turns(a.first, b.last, inverse_mass * total)
    if a.size > 1:  # of two single states the seam is the whole
        turned |= _turns(a.first, b.first, inverse_mass * (a.total + b.first))
        turned |= _turns(a.last, b.last, inverse_mass * (a.last + b.total))
    return _Span(a.size + b.size, a.first, b.last, total), turned


def _turns(first: Tensor, last: Tensor, velocity: Tensor) -> Tensor:
    """Return whether one of two momenta (chain, dimension) does not point along the velocity, (chain,)."""
    result: Tensor = (torch.linalg.vecdot(first, velocity) <= 0) | (
        torch.linalg.vecdot(last, velocity) <= 0
    )
    return result


@dataclass(frozen=True, eq=False)
class _Branch:
    """A new branch: where it ends, the state chosen in it, and its figures (chain,).

    `whole` marks chains in which it was built to its end without turning or diverging.
    """

    end: Phase
    span: _Span
    choice: Choice
    log_weight: Tensor
    whole: Tensor
    divergent: Tensor
    accept: Tensor  # sum over leaves
    n_steps: Tensor


def _branch(
    log_density: LogDensity,
    edge: Phase,
    *,
    tuning: Tuning,
    signed_step: Tensor,
    level: int,
    before: Tensor,
    growing: Tensor,
) -> _Branch:
    """Make 2^level leaves from `edge` on, for the chains that grow; `before` (chain,) is the trajectory's energy."""
    uniform = _uniform(before, (2**level,), tuning.generator)
    look = LEAVES_PER_LOOK.get(before.device.type, 1)
    alive, divergent, accept = growing, torch.zeros_like(growing), torch.zeros_like(before)
    n_steps, log_weight = (
        torch.zeros_like(before, dtype=torch.int64),
        torch.full_like(before, -torch.inf),
    )
    end, choice, spans = edge, Choice(edge.at, before), list[_Span]()
    for leaf in range(2**level):
        tried = leapfrog_step(log_density, end, step=signed_step, inverse_mass=tuning.inverse_mass)
        now = energy(tried, tuning.inverse_mass)
        error = now - before
        fine = error < DIVERGENCE_ENERGY  # false where it is not a number
        accept = accept + torch.where(alive & fine, torch.exp(-error.clamp(min=0.0)), 0.0)
        n_steps = n_steps + alive.long()
        divergent = divergent | (alive & ~fine)
        alive = alive & fine
        end = select_phase(alive, tried, end)  # a chain that is done stays at its last good state
        grown = torch.where(alive, torch.logaddexp(log_weight, -error), log_weight)
        choice = Choice(tried.at, now).where(
            alive & (torch.log(uniform[leaf]) < -error - grown), choice
        )
        log_weight = grown
        spans.append(_Span(1, end.p, end.p, end.p))
        while len(spans) > 1 and spans[-1].size == spans[-2].size:
            late, early = spans.pop(), spans.pop()
            span, turned = _join(early, late, tuning.inverse_mass)
            spans.append(span)
            alive = alive & ~turned
        if (leaf + 1) % look == 0 and not bool(alive.any()):
            break
    return _Branch(end, spans[0], choice, log_weight, alive, divergent, accept, n_steps)


def _uniform(like: Tensor, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(
        (*size, *like.shape), generator=generator, device=like.device, dtype=torch.float64
    )
