r"""Hamiltonian Monte Carlo of whitened weights and scales together, the prior's part of the motion solved exactly.

The Hamiltonian -log p(y | z, h) - log p(h) + |z|^2 / 2 + |v|^2 / 2 + |u|^2 / 2 is split into the prior of z, whose
flow is the rotation (z, v) -> (z cos e + v sin e, v cos e - z sin e), a free flight of the scales h -> h + e D u, and
the rest, which kicks v -> v + e d/dz and u -> u + e D' d/dh (Shahbaba, Lan, Johnson and Neal, 2014). The many
directions that the data do not see then cost no accuracy. Weights that the data determine shrink while their scale
grows along one path: that is how the scales travel (given z, a scale could move by a tenth of its posterior's width).

With `widths` the forces are those of a network with rounded ReLU (`soft_rectifier`); the energies stay exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bandgap.inference.lean_force import ROUGH_SIGNAL, LeanForce, lean
from bandgap.inference.partial_centring import Frames, enter, place, square_norm
from bandgap.inference.scales import ScalePrior
from bandgap.inference.whitened_network import (
    Hidden,
    Layers,
    WhitenedNetwork,
    hidden_features,
    integrate_output,
    scale_gradient,
    slopes,
)

DIVERGENCE_ENERGY = 1000.0
LARGEST_LOG = 60.0  # of a scale
LARGEST_SIGNAL = 1e14  # trace of rho H'H above which I + rho H'H cannot be factored in float64


@dataclass(frozen=True, eq=False)
class Transition:
    """What one transition did; every field has shape (chain,). `energy` is that of its path, momenta included."""

    accept: Tensor
    accepted: Tensor
    error: Tensor
    divergent: Tensor
    energy: Tensor


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
    widths: Sequence[float] = (),
) -> tuple[Layers, Tensor, Transition]:
    """Make one transition of z and of the scales `state` (chain, width) in `n_steps` steps of `step` radians.

    `directions` (width, width) is D': its rows are the directions in which the scales fly, one unit of u each.
    """
    v = [torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype) for q in z]
    u = torch.randn(state.shape, generator=generator, device=state.device, dtype=state.dtype)
    start = Phase(enter(frames, z, prior.scales(state)) if frames else z, state, v, u)
    end, error, energy = path(
        net, start, prior=prior, directions=directions, step=step, n_steps=n_steps, frames=frames, widths=widths
    )
    did = judge(error, energy, generator=generator)
    there = place(frames, end.z, prior.scales(end.state)).z if frames else end.z
    moved = [torch.where(did.accepted[:, None, None], a, b) for a, b in zip(there, z, strict=True)]
    return moved, torch.where(did.accepted[:, None], end.state, state), did


def judge(error: Tensor, energy: Tensor, *, generator: torch.Generator) -> Transition:
    """Accept or reject paths by the errors of their energies (chain,); `energy` (chain,) is that at their starts."""
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(torch.isfinite(error), torch.exp(-error.clamp(min=0.0)), torch.zeros_like(error))
    accepted = torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float64) < accept
    return Transition(accept, accepted, error, divergent, energy)


def path(
    net: WhitenedNetwork,
    start: Phase,
    *,
    prior: ScalePrior,
    directions: Tensor,
    step: float,
    n_steps: int,
    frames: Frames = (),
    widths: Sequence[float] = (),
) -> tuple[Phase, Tensor, Tensor]:
    """Follow the motion for `n_steps` steps; return its end, the error of the energy there and the energy at the start.

    Both energies have shape (chain,). With `frames`, `start.z` and the end's are zeta (`partial_centring`).
    """
    q, h, v, u = [a.clone() for a in start.z], start.state, [w.clone() for w in start.v], start.u
    forces = _Forces(net, prior, frames, widths)
    force = forces(q, h)
    energy = start.energy - exact_value(net, q, h, prior, frames)
    u = _kick(v, u, force, directions, 0.5 * step)
    for i in range(n_steps):
        rotate(q, v, step)
        h = h + step * (u @ directions)
        force = forces(q, h)
        u = _kick(v, u, force, directions, step if i + 1 < n_steps else 0.5 * step)
    end = Phase(q, h, v, u)
    return end, end.energy - exact_value(net, q, h, prior, frames) - energy, energy


def rotate(z: Layers, v: Layers, step: float) -> None:
    """Follow the prior's motion of weights and momenta for `step` radians: a rotation as three shears, in place."""
    shear, sin = math.tan(0.5 * step), math.sin(step)
    for a, w in zip(z, v, strict=True):
        a.add_(w, alpha=shear)
        w.sub_(a, alpha=sin)
        a.add_(w, alpha=shear)


def in_range(state: Tensor) -> Tensor:
    """Return states (chain, width) with what is out of the range of numbers brought to its ends, NaN to 0."""
    return state.clamp(-LARGEST_LOG, LARGEST_LOG).nan_to_num(0.0)


class _Forces:
    """The forces along one path, from the faster of two ways that agree."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames, widths: Sequence[float]) -> None:
        self._net, self._prior, self._frames, self._widths = net, prior, frames, widths
        self._lean = LeanForce(net, prior, frames, widths) if lean(net, widths) else None

    def __call__(self, z: Layers, state: Tensor) -> Force:
        if self._lean is None:
            return log_force(self._net, z, state, self._prior, self._frames, widths=self._widths, with_value=False)
        each = [self._of_chain([q[i : i + 1] for q in z], state[i : i + 1], i) for i in range(state.shape[0])]
        by_z = [torch.cat(layer) for layer in zip(*(layers for layers, _ in each), strict=True)]
        return Force(by_z, torch.cat([by_state for _, by_state in each]), torch.zeros_like(state[:, 0]))

    def _of_chain(self, z: Layers, state: Tensor, chain: int) -> tuple[Layers, Tensor]:
        """Return the forces of one chain, which depend on no other: z a list of (1, out, in), the state (1, width)."""
        assert self._lean is not None
        found = self._lean([q[0] for q in z], state, chain) if bool((state.abs() < LARGEST_LOG).all()) else None
        if found is not None:
            return [q[None] for q in found[0]], found[1]
        rest = self._net.rest
        net = self._net if rest is None else replace(self._net, rest=rest[chain : chain + 1])
        force = log_force(net, z, state, self._prior, self._frames, widths=self._widths, with_value=False)
        return force.by_z, force.by_state


def log_force(
    net: WhitenedNetwork,
    z: Layers,
    state: Tensor,
    prior: ScalePrior,
    frames: Frames = (),
    *,
    widths: Sequence[float] = (),
    with_value: bool = True,
) -> Force:
    """Return log p(y | z, h) + log p(h) with its gradient; with `frames`, `z` is zeta, and both are those in `Place`.

    A chain that left the range of numbers gets -inf and no force. The force stays a function of the position alone, so
    that the integrator stays reversible even there. Without `with_value` the value may lack a part. With `widths` the
    network's ReLU is rounded off.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    at = place(frames, z, scales) if frames else None
    z = z if at is None else at.z
    hidden = hidden_features(net, z, scales, widths=widths)
    strength = signal(hidden, scales.rho)
    fine = (state == safe).all(-1) & (strength < LARGEST_SIGNAL)  # a NaN compares as False
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    rough = not with_value and bool((strength < ROUGH_SIGNAL).all())
    output = integrate_output(net, hidden, scales, rough=rough)
    by_z, by_first = slopes(net, z, scales, hidden, output)
    by_scale, value = scale_gradient(net, z, by_z, output, scales, by_first=by_first), output.log_likelihood
    if at is not None:
        by_z, by_scale = at.force(frames, by_z, by_scale)
        value = value + at.added() if with_value else value
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


def exact_value(net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior, frames: Frames = ()) -> Tensor:
    """Return the value of `log_force` without widths, (chain,), and no gradient."""
    if not frames:
        return log_density(net, z, state, prior)
    at = place(frames, z, prior.scales(in_range(state)))
    return log_density(net, at.z, state, prior) + at.added()


def log_density(
    net: WhitenedNetwork, z: Layers, state: Tensor, prior: ScalePrior, *, projected: Tensor | None = None
) -> Tensor:
    """Return log p(y | z, scales) + log p(scales) of states (chain, width), -inf outside the range of numbers.

    `projected` is `net.project(z[0])` where it is known already.
    """
    safe = in_range(state)
    scales = prior.scales(safe)
    hidden = hidden_features(net, z, scales, projected=projected)
    fine = (state == safe).all(-1) & (signal(hidden, scales.rho) < LARGEST_SIGNAL)
    if not bool(fine.all()):
        hidden = hidden.without(~fine)
    value = integrate_output(net, hidden, scales).log_likelihood + prior.log_density(safe)
    return torch.where(fine & torch.isfinite(value), value, torch.full_like(value, -torch.inf))


def signal(hidden: Hidden, rho: Tensor) -> Tensor:
    """Return the trace of rho H'H, (chain,), infinite or NaN where H left the range of numbers."""
    norm: Tensor = torch.linalg.vector_norm(hidden.features, dim=(1, 2))
    return rho * norm.double() ** 2


def _kick(v: Layers, u: Tensor, force: Force, directions: Tensor, e: float) -> Tensor:
    """Kick v in place and return the momenta of the scales."""
    for w, g in zip(v, force.by_z, strict=True):
        w.add_(g, alpha=e)
    return u + e * (force.by_state @ directions.T)
