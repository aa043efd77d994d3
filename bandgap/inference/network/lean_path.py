"""A path of one chain on a CPU: the motion of `joint_hmc.path`, position and momenta in two arrays."""

import math
from collections.abc import Sequence

import torch

from bandgap.inference.network.joint_density import LARGEST_LOG, log_force
from bandgap.inference.network.lean_density import FramedDensity
from bandgap.inference.network.lean_force import Flat, LeanForce
from bandgap.inference.network.lean_kernels import kick_and_turn
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


class LeanPath:
    """Position and momenta of one chain on its way; `z` is zeta where there are frames."""

    def __init__(
        self,
        net: WhitenedNetwork,
        prior: ScalePrior,
        frames: Frames,
        widths: Sequence[float],
        *,
        z: Layers,
        state: Floats,
        v: Layers,
        u: Floats,
    ) -> None:
        """Begin at `z`, a list of (out, in), and `state` (width,), with momenta `v` and `u`.

        Where `net` holds weights of some inputs fixed, it holds those of this chain alone.
        """
        self._net, self._prior, self._frames, self._widths = net, prior, frames, widths
        self._force, self._density = LeanForce(net, prior, frames, widths), FramedDensity(net, prior, frames)
        self.z, self.v = Flat(net.shapes, like=net.base), Flat(net.shapes, like=net.base)
        self.z.fill(z)
        self.v.fill(v)
        self.state, self.u = state, u

    def energy(self) -> float:
        """Return the Hamiltonian here: exact, with ReLU not rounded. Infinite outside the range of numbers."""
        squares = self.z.square() + self.v.square() + float(self.u @ self.u)
        return 0.5 * squares - self._density(self.z.layers, self.state)

    def follow(self, directions: Floats, *, step: float, n_steps: int) -> None:
        """Move for `n_steps` steps of `step` radians; the scales fly along the rows of `directions`."""
        shear, sin = math.tan(0.5 * step), math.sin(step)
        q, v, force = self.z.all.numpy(), self.v.all.numpy(), self._force.by_zeta.all
        for i in range(n_steps):
            kick = step if i else 0.5 * step
            self._kick_scales(directions, kick)
            kick_and_turn(q, v, force.numpy(), kick, shear, sin)
            self.state = self.state + step * (self.u @ directions)
        self._kick_scales(directions, 0.5 * step)
        self.v.all.add_(force, alpha=0.5 * step)

    def _kick_scales(self, directions: Floats, kick: float) -> None:
        """Find the force where the path is, and kick the scales' momenta."""
        inside = abs(self.state).max() < LARGEST_LOG  # a NaN compares as False
        by_state = self._force(self.z.layers, self.state) if inside else None
        if by_state is None:
            by_state = self._general_force()
        self.u = self.u + kick * (directions @ by_state)

    def _general_force(self) -> Floats:
        """Do what the lean force does, where it cannot."""
        at = torch.from_numpy(self.state)[None]
        force = log_force(
            self._net,
            [q[None] for q in self.z.layers],
            at,
            self._prior,
            self._frames,
            widths=self._widths,
            with_value=False,
        )
        self._force.by_zeta.fill([g[0] for g in force.by_z])
        by_state: Floats = force.by_state[0].numpy()
        return by_state
