r"""Hamiltonian Monte Carlo of whitened weights and scales together, the prior's flow being exact.

The Hamiltonian -log p(y | z, h) - log p(h) + |z|^2 / 2 + |v|^2 / 2 + |u|^2 / 2 is split into three
parts (Shahbaba, Lan, Johnson and Neal, 2014):

- the prior of z, whose flow is the rotation (z, v) -> (z cos e + v sin e, v cos e - z sin e);
- a free flight of the scales, h -> h + e D u;
- the rest, which kicks v -> v + e d/dz and u -> u + e D' d/dh.

The many directions that the data do not determine cost no accuracy. Weights that the data determine
shrink along a path while their scale grows. This is how the scales move far: given z, a scale could
move by a tenth of its posterior's width.

With `widths` the forces are those of a network with rounded ReLU (`soft_rectifier`). The energies
are exact.

`path` follows a batch of chains in torch. On a CPU it follows every chain on its own by compiled
code (`CompiledPath`), because the arrays of one chain stay in the processor's cache.
`test_compiled_force.py` checks that both have the same forces and energies.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network.compiled_density import (
    CompiledDensity,
    has_compiled_code,
    network_of_chain,
    stacked,
)
from bandgap.inference.network.compiled_force import CompiledForce, FlatLayers
from bandgap.inference.network.compiled_kernels import kick, kick_and_rotate
from bandgap.inference.network.joint_density import LARGEST_LOG, Force, exact_value, log_force
from bandgap.inference.network.partial_centring import Frames, from_frames, square_norm, to_frames
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork

DIVERGENCE_ENERGY = 1000.0


@dataclass(frozen=True, eq=False)
class Transition:
    """Figures of one transition, each (chain,). `energy` is that at the start of the path."""

    accept: Tensor
    accepted: Tensor
    error: Tensor
    divergent: Tensor
    energy: Tensor


@dataclass(frozen=True, eq=False)
class Phase:
    """Positions (z and the scales' `state`) and momenta (v of z, u of the scales) of all chains."""

    z: Layers
    state: Tensor
    v: Layers
    u: Tensor

    @property
    def energy(self) -> Tensor:
        """Return (|z|^2 + |v|^2 + |u|^2) / 2, (chain,): the Hamiltonian without the log density."""
        return 0.5 * (square_norm(self.z) + square_norm(self.v) + (self.u**2).sum(-1))


class CompiledPath:
    """A path of one chain on a CPU, with positions and momenta in two arrays.

    With frames, `z` is zeta.
    """

    def __init__(
        self,
        net: WhitenedNetwork,
        start: Phase,
        chain: int,
        prior: ScalePrior,
        frames: Frames,
        widths: Sequence[float],
    ) -> None:
        """Start where this chain of `start` is."""
        net = network_of_chain(net, chain)
        self._net = net
        self._prior = prior
        self._frames = frames
        self._widths = widths
        self._force = CompiledForce(net, prior, frames, widths)
        self._density = CompiledDensity(net, prior, frames)
        self.z = FlatLayers(net.shapes, like=net.base)
        self.v = FlatLayers(net.shapes, like=net.base)
        self.z.fill([q[chain] for q in start.z])
        self.v.fill([w[chain] for w in start.v])
        self.state = start.state[chain].numpy()
        self.u = start.u[chain].numpy()

    def energy(self) -> float:
        """Return the exact Hamiltonian at the present position, with ReLU not rounded.

        It is infinite outside the range of numbers.
        """
        squares = self.z.square() + self.v.square() + float(self.u @ self.u)
        return 0.5 * squares - self._density.in_frames(self.z.layers, self.state)

    def follow(self, directions: Floats, *, step: float, n_steps: int) -> None:
        """Move for `n_steps` steps of `step` radians; the scales fly along rows of `directions`."""
        shear = math.tan(0.5 * step)
        sin = math.sin(step)
        q = self.z.all
        v = self.v.all
        force = self._force.by_zeta.all
        for i in range(n_steps):
            size = step if i else 0.5 * step
            self._kick_scales(directions, size)
            kick_and_rotate(q, v, force, size, shear, sin)
            self.state = self.state + step * (self.u @ directions)
        self._kick_scales(directions, 0.5 * step)
        kick(v, force, 0.5 * step)

    def _kick_scales(self, directions: Floats, size: float) -> None:
        """Compute the force at the present position and kick the scales' momenta."""
        inside = abs(self.state).max() < LARGEST_LOG  # a NaN compares as False
        by_state = self._force(self.z.layers, self.state) if inside else None
        if by_state is None:
            by_state = self._torch_force()
        self.u = self.u + size * (directions @ by_state)

    def _torch_force(self) -> Floats:
        """Compute the force by `log_force`, where the compiled one gives none."""
        force = log_force(
            self._net,
            [torch.from_numpy(q)[None] for q in self.z.layers],
            torch.from_numpy(self.state)[None],
            self._prior,
            self._frames,
            widths=self._widths,
            with_value=False,
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
    """Make one transition of z and of the scales.

    Parameters
    ----------
    z : list of (chain, out, in)
    state : (chain, width)
    directions : (width, width), D': its rows are the directions in which the scales fly, one unit
        of u each
    step : radians
    n_steps : number of steps
    frames : coordinates of the path (`partial_centring`); none for whitened weights
    widths : half widths of the rounded ReLU, one for each hidden layer

    Returns
    -------
    z and state after the transition, and its figures.
    """
    v = [torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype) for q in z]
    u = torch.randn(state.shape, generator=generator, device=state.device, dtype=state.dtype)
    start = Phase(to_frames(frames, z, prior.scales(state)) if frames else z, state, v, u)
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
    transition = accept_or_reject(error, energy, generator=generator)
    z_end = from_frames(frames, end.z, prior.scales(end.state)).z if frames else end.z
    accepted = transition.accepted
    z_next = [torch.where(accepted[:, None, None], a, b) for a, b in zip(z_end, z, strict=True)]
    return z_next, torch.where(accepted[:, None], end.state, state), transition


def accept_or_reject(error: Tensor, energy: Tensor, *, generator: torch.Generator) -> Transition:
    """Accept or reject paths by the errors of their energies (chain,).

    `energy` (chain,) is that at their starts.
    """
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(
        torch.isfinite(error), torch.exp(-error.clamp(min=0.0)), torch.zeros_like(error)
    )
    uniform = torch.rand(error.shape, generator=generator, device=error.device, dtype=torch.float64)
    return Transition(accept, uniform < accept, error, divergent, energy)


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
    """Follow the motion for `n_steps` steps.

    Returns the end, the error of the energy there, and the energy at the start, both (chain,).
    With `frames`, z is zeta at both ends. The other arguments are those of `step_joint`.
    """
    if widths and min(widths) > 0 and has_compiled_code(net):
        return _paths_by_chain(
            net, start, prior, frames, widths, directions.numpy(), step=step, n_steps=n_steps
        )
    energy = start.energy - exact_value(net, start.z, start.state, prior, frames)
    q = [a.clone() for a in start.z]
    h = start.state
    v = [w.clone() for w in start.v]
    u = start.u

    def force() -> Force:
        return log_force(net, q, h, prior, frames, widths=widths, with_value=False)

    u = _kick(v, u, force(), directions, 0.5 * step)
    for i in range(n_steps):
        rotate(q, v, step)
        h = h + step * (u @ directions)
        u = _kick(v, u, force(), directions, step if i + 1 < n_steps else 0.5 * step)
    end = Phase(q, h, v, u)
    return end, end.energy - exact_value(net, q, h, prior, frames) - energy, energy


def _paths_by_chain(
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
    """Follow one chain after the other by compiled code; return what `path` does."""
    paths = [
        CompiledPath(net, start, chain, prior, frames, widths) for chain in range(len(start.u))
    ]
    starts = []
    ends = []
    for chain_path in paths:
        starts.append(chain_path.energy())
        chain_path.follow(directions, step=step, n_steps=n_steps)
        ends.append(chain_path.energy())
    end = Phase(
        stacked([chain_path.z.layers for chain_path in paths]),
        torch.from_numpy(np.stack([chain_path.state for chain_path in paths])),
        stacked([chain_path.v.layers for chain_path in paths]),
        torch.from_numpy(np.stack([chain_path.u for chain_path in paths])),
    )
    energy = torch.tensor(starts, dtype=torch.float64)
    return end, torch.tensor(ends, dtype=torch.float64) - energy, energy


def rotate(z: Layers, v: Layers, step: float) -> None:
    """Follow the prior's flow: rotate z and v by `step` radians, in place by three shears."""
    shear = math.tan(0.5 * step)
    sin = math.sin(step)
    for a, w in zip(z, v, strict=True):
        a.add_(w, alpha=shear)
        w.sub_(a, alpha=sin)
        a.add_(w, alpha=shear)


def _kick(v: Layers, u: Tensor, force: Force, directions: Tensor, size: float) -> Tensor:
    """Kick v in place and return the momenta of the scales."""
    for w, g in zip(v, force.by_z, strict=True):
        w.add_(g, alpha=size)
    return u + size * (force.by_state @ directions.T)
