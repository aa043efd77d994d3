r"""One transition of the No-U-Turn sampler, several chains as one batch.

Hoffman and Gelman (2014) in the multinomial form of Betancourt (2017), appendix A. A trajectory
doubles, forwards or backwards in time, until it turns back on itself. A state is selected with
weight exp(-H): by progressive sampling within a branch, and biased towards the new branch between
branches. A piece of trajectory with ends a and b and sum of momenta rho turns where p_a' M^-1 rho
or p_b' M^-1 rho is not positive (Betancourt, 2017, appendix A.4.2). Joining two pieces is also
checked across the seam, each piece with the first momentum of the other, as Stan does.

There is no recursion. The 2^k leaves of a branch are made one after the other and joined like the
digits of a binary counter, so that a branch of depth k stores k pieces. Chains that still grow are
always at the same leaf of the same depth. A chain that has finished, turned or diverged waits, with
its state masked.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tests.hamiltonian.chain_loop import Statistics, Tuning
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

# leaves between two checks whether any chain still grows; a check on a GPU waits for its queue
LEAVES_PER_CHECK = {"cpu": 1, "cuda": 16}


def transition(
    log_density: LogDensity, at: Point, *, tuning: Tuning, max_depth: int
) -> tuple[Point, Statistics]:
    """Make one transition of every chain.

    A trajectory ends where the energy has risen by more than 1000 or is not finite, and counts as
    divergent. Random numbers are drawn in this order: momenta; then for every depth one number a
    chain for the direction, one for every leaf (leaf, chain), and one a chain for the choice
    between trajectory and new branch.
    """
    inverse_mass = tuning.inverse_mass
    start = Phase(at, draw_momentum(at.q, inverse_mass, generator=tuning.generator))
    start_energy = energy(start, inverse_mass)
    first = last = start  # the ends of the trajectory in time
    span = _Span(1, start.p, start.p, start.p)
    choice = Choice(at, start_energy)
    log_weight = torch.zeros_like(start_energy)
    growing = torch.ones_like(start_energy, dtype=torch.bool)
    divergent = ~growing
    accept = torch.zeros_like(start_energy)
    n_steps = depth = torch.zeros_like(start_energy, dtype=torch.int64)
    for level in range(max_depth):
        forward = _uniform(start_energy, (), tuning.generator) < 0.5
        branch = _branch(
            log_density,
            select_phase(forward, last, first),
            tuning=tuning,
            signed_step=torch.where(forward, tuning.step, -tuning.step),
            level=level,
            start_energy=start_energy,
            growing=growing,
        )
        divergent = divergent | branch.divergent
        accept = accept + branch.accept
        n_steps = n_steps + branch.n_steps
        uniform = _uniform(start_energy, (), tuning.generator)
        take = branch.complete & (torch.log(uniform) < branch.log_weight - log_weight)
        choice = branch.choice.where(take, choice)
        log_weight = torch.logaddexp(log_weight, branch.log_weight)
        first = select_phase(branch.complete & ~forward, branch.end, first)
        last = select_phase(branch.complete & forward, branch.end, last)
        span, turned = _join(span.facing(forward), branch.span, inverse_mass)
        span = span.facing(forward)  # back to the order in time
        depth = depth + branch.complete.long()
        growing = branch.complete & ~turned
        if not bool(growing.any()):
            break
    statistics = {
        "accept": accept / n_steps,
        "energy": choice.energy,
        "divergent": divergent,
        "n_steps": n_steps,
        "depth": depth,
    }
    return choice.at, statistics


@dataclass(frozen=True, eq=False)
class Choice:
    """The selected state, with its energy (chain,)."""

    at: Point
    energy: Tensor

    def where(self, mask: Tensor, other: "Choice") -> "Choice":
        """Return this one for the marked chains (chain,), else `other`."""
        selected_energy = torch.where(mask, self.energy, other.energy)
        return Choice(select_point(mask, self.at, other.at), selected_energy)


@dataclass(frozen=True, eq=False)
class _Span:
    """A piece of trajectory.

    Number of states, momenta at its two ends, and the sum of its momenta, each (chain, dimension).
    """

    size: int
    first: Tensor
    last: Tensor
    total: Tensor

    def facing(self, forward: Tensor) -> "_Span":
        """Return it with the ends exchanged for the chains (chain,) that do not go forward."""
        wide = forward[:, None]
        first = torch.where(wide, self.first, self.last)
        last = torch.where(wide, self.last, self.first)
        return _Span(self.size, first, last, self.total)


def _join(a: _Span, b: _Span, inverse_mass: Tensor) -> tuple[_Span, Tensor]:
    """Return the piece made of a and then b, and whether it turns (chain,)."""
    total = a.total + b.total
    turned = _turns(a.first, b.last, inverse_mass * total)
    if a.size > 1:  # for two single states the seam is the same check
        turned |= _turns(a.first, b.first, inverse_mass * (a.total + b.first))
        turned |= _turns(a.last, b.last, inverse_mass * (a.last + b.total))
    return _Span(a.size + b.size, a.first, b.last, total), turned


def _turns(first: Tensor, last: Tensor, velocity: Tensor) -> Tensor:
    """Return whether one of two momenta does not point along the velocity, (chain,)."""
    result: Tensor = (torch.linalg.vecdot(first, velocity) <= 0) | (
        torch.linalg.vecdot(last, velocity) <= 0
    )
    return result


@dataclass(frozen=True, eq=False)
class _Branch:
    """A new branch: its end, the state selected in it, and its figures (chain,).

    `complete` marks chains in which it was built to its end without turning or diverging. `accept`
    is a sum over leaves.
    """

    end: Phase
    span: _Span
    choice: Choice
    log_weight: Tensor
    complete: Tensor
    divergent: Tensor
    accept: Tensor
    n_steps: Tensor


def _branch(
    log_density: LogDensity,
    edge: Phase,
    *,
    tuning: Tuning,
    signed_step: Tensor,
    level: int,
    start_energy: Tensor,
    growing: Tensor,
) -> _Branch:
    """Make 2^level leaves from `edge` on, for the chains that grow."""
    uniform = _uniform(start_energy, (2**level,), tuning.generator)
    leaves_per_check = LEAVES_PER_CHECK.get(start_energy.device.type, 1)
    alive = growing
    divergent = torch.zeros_like(growing)
    accept = torch.zeros_like(start_energy)
    n_steps = torch.zeros_like(start_energy, dtype=torch.int64)
    log_weight = torch.full_like(start_energy, -torch.inf)
    end = edge
    choice = Choice(edge.at, start_energy)
    spans: list[_Span] = []
    for leaf in range(2**level):
        tried = leapfrog_step(log_density, end, step=signed_step, inverse_mass=tuning.inverse_mass)
        tried_energy = energy(tried, tuning.inverse_mass)
        error = tried_energy - start_energy
        is_valid = error < DIVERGENCE_ENERGY  # false where it is not a number
        accept = accept + torch.where(alive & is_valid, torch.exp(-error.clamp(min=0.0)), 0.0)
        n_steps = n_steps + alive.long()
        divergent = divergent | (alive & ~is_valid)
        alive = alive & is_valid
        end = select_phase(alive, tried, end)  # a finished chain stays at its last valid state
        log_weight = torch.where(alive, torch.logaddexp(log_weight, -error), log_weight)
        take = alive & (torch.log(uniform[leaf]) < -error - log_weight)
        choice = Choice(tried.at, tried_energy).where(take, choice)
        spans.append(_Span(1, end.p, end.p, end.p))
        while len(spans) > 1 and spans[-1].size == spans[-2].size:
            late = spans.pop()
            early = spans.pop()
            span, turned = _join(early, late, tuning.inverse_mass)
            spans.append(span)
            alive = alive & ~turned
        if (leaf + 1) % leaves_per_check == 0 and not bool(alive.any()):
            break
    return _Branch(end, spans[0], choice, log_weight, alive, divergent, accept, n_steps)


def _uniform(like: Tensor, size: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(
        (*size, *like.shape), generator=generator, device=like.device, dtype=torch.float64
    )
