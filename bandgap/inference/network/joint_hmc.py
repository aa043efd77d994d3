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
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network.joint_density import LARGEST_LOG, Force, exact_value, log_force
from bandgap.inference.network.lean_density import FramedDensity, can_be_lean, of_chain, stacked
from bandgap.inference.network.lean_force import Flat, LeanForce
from bandgap.inference.network.lean_kernels import kick_and_turn, kick_only
from bandgap.inference.network.partial_centring import Frames, enter, place, square_norm
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

DIVERGENCE_ENERGY = 1000.0


@dataclass(frozen=True, eq=False)
class Transition:
    """What one transition did; every field has shape (chain,). `energy` is that of its path, momenta included."""

    accept: Tensor
    accepted: Tensor
    error: Tensor
    divergent: Tensor
    energy: Tensor


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


class LeanPath:
    """A path of one chain on a CPU, position and momenta in two arrays; `z` is zeta where there are frames."""

    def __init__(
        self,
        net: WhitenedNetwork,
        start: Phase,
        chain: int,
        prior: ScalePrior,
        frames: Frames,
        widths: Sequence[float],
    ) -> None:
        """Begin where one chain of `start` is."""
        net = of_chain(net, chain)
        self._net, self._prior, self._frames, self._widths = net, prior, frames, widths
        self._force, self._density = (
            LeanForce(net, prior, frames, widths),
            FramedDensity(net, prior, frames),
        )
        self.z, self.v = Flat(net.shapes, like=net.base), Flat(net.shapes, like=net.base)
        self.z.fill([q[chain] for q in start.z])
        self.v.fill([w[chain] for w in start.v])
        self.state, self.u = start.state[chain].numpy(), start.u[chain].numpy()

    def energy(self) -> float:
        """Return the Hamiltonian here: exact, with ReLU not rounded. Infinite outside the range of numbers."""
        squares = self.z.square() + self.v.square() + float(self.u @ self.u)
        return 0.5 * squares - self._density(self.z.layers, self.state)

    def follow(self, directions: Floats, *, step: float, n_steps: int) -> None:
        """Move for `n_steps` steps of `step` radians; the scales fly along the rows of `directions`."""
        shear, sin = math.tan(0.5 * step), math.sin(step)
        q, v, force = self.z.all, self.v.all, self._force.by_zeta.all
        for i in range(n_steps):
            kick = step if i else 0.5 * step
            self._kick_scales(directions, kick)
            kick_and_turn(q, v, force, kick, shear, sin)
            self.state = self.state + step * (self.u @ directions)
        self._kick_scales(directions, 0.5 * step)
        kick_only(v, force, 0.5 * step)

    def _kick_scales(self, directions: Floats, kick: float) -> None:
        """Find the force where the path is, and kick the scales' momenta."""
        inside = abs(self.state).max() < LARGEST_LOG  # a NaN compares as False
        by_state = self._force(self.z.layers, self.state) if inside else None
        if by_state is None:
            by_state = self._general_force()
        self.u = self.u + kick * (directions @ by_state)

    def _general_force(self) -> Floats:
        """Do what the lean force does, where it cannot."""
        z, state = (
            [torch.from_numpy(q)[None] for q in self.z.layers],
            torch.from_numpy(self.state)[None],
        )
        force = log_force(
            self._net, z, state, self._prior, self._frames, widths=self._widths, with_value=False
        )
        self._force.by_zeta.fill([g[0] for g in force.by_z])
        by_state: Floats = force.by_state[0].numpy()
        return by_state


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
        net,
        start,
        prior=prior,
        directions=directions,
        step=step,
        n_steps=n_steps,
        frames=frames,
        widths=widths,
    )
    did = judge(error, energy, generator=generator)
    there = place(frames, end.z, prior.scales(end.state)).z if frames else end.z
    moved = [torch.where(did.accepted[:, None, None], a, b) for a, b in zip(there, z, strict=True)]
    return moved, torch.where(did.accepted[:, None], end.state, state), did


def judge(error: Tensor, energy: Tensor, *, generator: torch.Generator) -> Transition:
    """Accept or reject paths by the errors of their energies (chain,); `energy` (chain,) is that at their starts."""
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(
        torch.isfinite(error), torch.exp(-error.clamp(min=0.0)), torch.zeros_like(error)
    )
    accepted = (
        torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float64)
        < accept
    )
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
    if widths and min(widths) > 0 and can_be_lean(net):  # a third of the time and less
        return _one_by_one(
            net, start, prior, frames, widths, directions.numpy(), step=step, n_steps=n_steps
        )
    energy = start.energy - exact_value(net, start.z, start.state, prior, frames)
    q, h, v, u = [a.clone() for a in start.z], start.state, [w.clone() for w in start.v], start.u

    def force() -> Force:
        return log_force(net, q, h, prior, frames, widths=widths, with_value=False)

    u = _kick(v, u, force(), directions, 0.5 * step)
    for i in range(n_steps):
        rotate(q, v, step)
        h = h + step * (u @ directions)
        u = _kick(v, u, force(), directions, step if i + 1 < n_steps else 0.5 * step)
    end = Phase(q, h, v, u)
    return end, end.energy - exact_value(net, q, h, prior, frames) - energy, energy


def _one_by_one(
    net: WhitenedNetwork,
    start: Phase,
    prior: ScalePrior,
    frames: Frames,
    widths: Sequence[float],
    directions: Floats,
    *,
    step: float,
    n_steps: int,
) -> tuple[Phase, Tensor, Tensor]:
    """Follow one chain after the other on a CPU; return what `path` does."""
    ways, before, after = (
        [LeanPath(net, start, i, prior, frames, widths) for i in range(len(start.u))],
        [],
        [],
    )
    for way in ways:
        before.append(way.energy())
        way.follow(directions, step=step, n_steps=n_steps)
        after.append(way.energy())
    end = Phase(
        stacked([way.z.layers for way in ways]),
        torch.from_numpy(np.stack([way.state for way in ways])),
        stacked([way.v.layers for way in ways]),
        torch.from_numpy(np.stack([way.u for way in ways])),
    )
    energy = torch.tensor(before, dtype=torch.float64)
    return end, torch.tensor(after, dtype=torch.float64) - energy, energy


def rotate(z: Layers, v: Layers, step: float) -> None:
    """Follow the prior's motion of weights and momenta for `step` radians: a rotation as three shears, in place."""
    shear, sin = math.tan(0.5 * step), math.sin(step)
    for a, w in zip(z, v, strict=True):
        a.add_(w, alpha=shear)
        w.sub_(a, alpha=sin)
        a.add_(w, alpha=shear)


def _kick(v: Layers, u: Tensor, force: Force, directions: Tensor, e: float) -> Tensor:
    """Kick v in place and return the momenta of the scales."""
    for w, g in zip(v, force.by_z, strict=True):
        w.add_(g, alpha=e)
    return u + e * (force.by_state @ directions.T)
