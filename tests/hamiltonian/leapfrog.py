r"""Positions with their density, leapfrog steps and energies, for all Hamiltonian samplers here.

H(q, p) = -log density(q) + p' M^-1 p / 2 with a separate diagonal mass M for each chain (Neal,
2011, sections 2 and 4.1). Chains are rows of one batch. Energies are float64 for positions of any
precision.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

DIVERGENCE_ENERGY = 1000.0
DOUBLINGS = 50  # at most, of the first step
FIRST_ACCEPT = 0.8  # of one leapfrog step, by which the first step is found

LogDensity = Callable[[Tensor], Tensor]  # (chain, dimension) -> (chain,)


@dataclass(frozen=True, eq=False)
class Point:
    """Positions q (chain, dimension), log density (chain,) in float64, and its gradient."""

    q: Tensor
    value: Tensor
    gradient: Tensor


@dataclass(frozen=True, eq=False)
class Phase:
    """Positions and momenta p (chain, dimension)."""

    at: Point
    p: Tensor


def evaluate(log_density: LogDensity, q: Tensor) -> Point:
    """Return `q` with the log density and its gradient, by automatic differentiation."""
    with torch.enable_grad():
        leaf = q.detach().requires_grad_(True)
        value = log_density(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return Point(q.detach(), value.detach().double(), gradient)


def draw_momentum(q: Tensor, inverse_mass: Tensor, *, generator: torch.Generator) -> Tensor:
    """Draw p ~ N(0, M) for positions q and the diagonal of M^-1, all (chain, dimension)."""
    noise = torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype)
    return noise / torch.sqrt(inverse_mass)


def leapfrog_step(
    log_density: LogDensity, start: Phase, *, step: Tensor, inverse_mass: Tensor
) -> Phase:
    """Make one leapfrog step of size `step` (chain,), negative to go back in time."""
    e = step[:, None]
    p = start.p + 0.5 * e * start.at.gradient
    at = evaluate(log_density, start.at.q + e * (inverse_mass * p))
    return Phase(at, p + 0.5 * e * at.gradient)


def energy(phase: Phase, inverse_mass: Tensor) -> Tensor:
    """Return H of every chain, (chain,), in float64."""
    return 0.5 * (phase.p * phase.p * inverse_mass).sum(-1, dtype=torch.float64) - phase.at.value


def select_point(mask: Tensor, yes: Point, no: Point) -> Point:
    """Return `yes` for the marked chains (chain,), else `no`."""
    wide = mask[:, None]
    return Point(
        torch.where(wide, yes.q, no.q),
        torch.where(mask, yes.value, no.value),
        torch.where(wide, yes.gradient, no.gradient),
    )


def select_phase(mask: Tensor, yes: Phase, no: Phase) -> Phase:
    """Return `yes` for the marked chains (chain,), else `no`."""
    return Phase(select_point(mask, yes.at, no.at), torch.where(mask[:, None], yes.p, no.p))


def reasonable_step(
    log_density: LogDensity,
    at: Point,
    *,
    step: Tensor,
    inverse_mass: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Return the step (chain,) at which one leapfrog step is accepted with 0.8, to a factor of two.

    Each chain's `step` is doubled while its acceptance is above, else halved until it is (Hoffman
    and Gelman, 2014, algorithm 4). Used at the start and when the mass changes.
    """
    start = Phase(at, draw_momentum(at.q, inverse_mass, generator=generator))
    start_energy = energy(start, inverse_mass)
    grow = torch.zeros_like(step, dtype=torch.bool)
    searching = torch.ones_like(step, dtype=torch.bool)
    for i in range(DOUBLINGS):
        end = leapfrog_step(log_density, start, step=step, inverse_mass=inverse_mass)
        good = (
            torch.exp(start_energy - energy(end, inverse_mass)) > FIRST_ACCEPT
        )  # false where not finite
        grow = good if i == 0 else grow
        searching = searching & (good == grow)
        if not bool(searching.any()):
            break
        step = torch.where(searching, torch.where(grow, 2.0 * step, 0.5 * step), step)
    return step
