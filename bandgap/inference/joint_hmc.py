r"""Hamiltonian Monte Carlo of whitened weights and scales together, the prior's part of the motion solved exactly.

The Hamiltonian -log p(y | z, h) - log p(h) + |z|^2 / 2 + |v|^2 / 2 + |u|^2 / 2 is split into the prior of z, whose
flow is the rotation (z, v) -> (z cos e + v sin e, v cos e - z sin e), a free flight of the scales h -> h + e D u, and
the rest, which kicks v -> v + e d/dz and u -> u + e D' d/dh (Shahbaba, Lan, Johnson and Neal, 2014). The many
directions that the data do not see then cost no accuracy. Weights that the data determine shrink while their scale
grows along one path: that is how the scales travel (given z, a scale could move by a tenth of its posterior's width).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.inference.partial_centring import Frames, enter, place, square_norm
from bandgap.inference.scales import ScalePrior
from bandgap.inference.whitened_network import (
    Hidden,
    Layers,
    WhitenedNetwork,
    gradient,
    hidden_features,
    integrate_output,
    scale_gradient,
)

DIVERGENCE_ENERGY = 1000.0
LARGEST_LOG = 60.0  # of a scale
LARGEST_SIGNAL = 1e14  # trace of rho H'H above which I + rho H'H cannot be factored in float64


@dataclass(frozen=True, eq=False)
class Transition:
    """What one transition did; every field has shape (chain,)."""

    accept: Tensor
    accepted: Tensor
    error: Tensor
    divergent: Tensor


@dataclass(frozen=True, eq=False)
class Force:
    """Value (chain,) of the log density without the prior of z, its gradient by z and by the state (chain, width)."""

    by_z: Layers
    by_state: Tensor
    value: Tensor


@dataclass(frozen=True, eq=False)
class Phase:
    """Position (z and the scales' `state`) and momenta (v of z, u of the scales) of every chain."""

    z: Layers
    state: Tensor
    v: Layers
    u: Tensor

    @property
    def energy(self) -> Tensor:
        """Return (|z|^2 + |v|^2 + |u|^2) / 2, (chain,): all of the Hamiltonian but the log density of `log_force`."""
        return 0.5 * (square_norm(self.z) + square_norm(self.v) + (self.u**2).sum(-1))


def step_joint(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    *,
    prior: ScalePrior,
    directions: Tensor,
    step: float,
    n_steps: int,
    generator: torch.Generator,
    frames: Frames = (),
) -> tuple[Layers, Tensor, Transition]:
    """Make one transition of z and of the scales `state` (chain, width) in `n_steps` steps of `step` radians.

    `directions` (width, width) is D': its rows are the directions in which the scales fly, one unit of u each.
    """
    v = [torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype) for q in z]
    u = torch.randn(state.shape, generator=generator, device=state.device, dtype=state.dtype)
    start = Phase(enter(frames, z, prior.scales(state)) if frames else z, state, v, u)
    end, error = path(net, start, prior=prior, directions=directions, step=step, n_steps=n_steps, frames=frames)
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(torch.isfinite(error), torch.exp(-error.clamp(min=0.0)), torch.zeros_like(error))
    accepted = torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float64) < accept
    there = place(frames, end.z, prior.scales(end.state)).z if frames else end.z
    moved = [torch.where(accepted[:, None, None], a, b) for a, b in zip(there, z, strict=True)]
    return moved, torch.where(accepted[:, None], end.state, state), Transition(accept, accepted, error, divergent)


def path(
    net: WhitenedNetwork,
    start: Phase,
    *,
    prior: ScalePrior,
    directions: Tensor,
    step: float,
    n_steps: int,
    frames: Frames = (),
) -> tuple[Phase, Tensor]:
    """Follow the motion for `n_steps` steps; return its end and the error of the energy there, (chain,).

    With `frames`, `start.z` and the end's are zeta (`partial_centring`).
    """
    q, h, v, u = [a.clone() for a in start.z], start.state, [w.clone() for w in start.v], start.u
    shear, sin = math.tan(0.5 * step), math.sin(step)
    force = log_force(net, q, h, prior, frames)
    energy = start.energy - force.value
    u = _kick(v, u, force, directions, 0.5 * step)
    for i in range(n_steps):
        for a, w in zip(q, v, strict=True):  # a rotation as three shears, in place
            a.add_(w, alpha=shear)
            w.sub_(a, alpha=sin)
            a.add_(w, alpha=shear)
        h, last = h + step * (u @ directions), i + 1 == n_steps
        force = log_force(net, q, h, prior, frames, with_value=last)
        u = _kick(v, u, force, directions, 0.5 * step if last else step)
    end = Phase(q, h, v, u)
    return end, end.energy - force.value - energy


def log_force(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    frames: Frames = (),
    *,
    with_value: bool = True,
) -> Force:
    """Return log p(y | z, h) + log p(h) with its gradient; with `frames`, `z` is zeta, and both are those in `Place`.

    A chain that left the range of numbers gets -inf and no force. The force stays a function of the position alone, so
    that the integrator stays reversible even there. Without `with_value` the value may lack a part.
    """
    safe = state.clamp(-LARGEST_LOG, LARGEST_LOG).nan_to_num(0.0)
    scales = prior.scales(safe)
    at = place(frames, z, scales) if frames else None
    z = z if at is None else at.z
    hidden = hidden_features(net, z, scales)
    fine = (state == safe).all(-1) & (signal(hidden, scales.rho) < LARGEST_SIGNAL)  # a NaN compares as False
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    output = integrate_output(net, hidden, scales)
    by_z = gradient(net, z, scales, hidden, output)
    by_scale, value = scale_gradient(net, z, by_z, output, scales), output.log_likelihood
    if at is not None:
        by_z, by_scale = at.force(frames, by_z, by_scale)
        value = value + at.added(frames) if with_value else value
    prior_value, by_prior = prior.log_density_and_gradient(safe)
    value, by_state = value + prior_value, prior.by_state(safe, by_scale) + by_prior
    fine &= torch.isfinite(value) & torch.isfinite(by_state).all(-1)
    if bool(fine.all()):
        return Force(by_z, by_state, value)
    return Force(
        [torch.where(fine[:, None, None], g, torch.zeros_like(g)) for g in by_z],
        torch.where(fine[:, None], by_state, torch.zeros_like(by_state)),
        torch.where(fine, value, torch.full_like(value, -torch.inf)),
    )


def signal(hidden: Hidden, rho: Tensor) -> Tensor:
    """Return the trace of rho H'H, (chain,), infinite or NaN where H left the range of numbers."""
    norm: Tensor = torch.linalg.vector_norm(hidden.features, dim=(1, 2))
    return rho * norm.double() ** 2


def _kick(v: Layers, u: Tensor, force: Force, directions: Tensor, e: float) -> Tensor:
    """Kick v in place and return the momenta of the scales."""
    for w, g in zip(v, force.by_z, strict=True):
        w.add_(g, alpha=e)
    return u + e * (force.by_state @ directions.T)
