"""The exact log density of one chain on a CPU: existing arrays and compiled loops.

The same numbers as `joint_density.log_density` and `exact_value`, up to rounding errors
(`test_compiled_force.py`, `test_one_by_one.py`). It exists for speed, as `compiled_force`.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from bandgap.inference.network import compiled_kernels, compiled_output
from bandgap.inference.network.compiled_force import Arrays, CompiledFrames
from bandgap.inference.network.compiled_kernels import multiply, silent
from bandgap.inference.network.joint_density import LARGEST_LOG, LARGEST_SIGNAL
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


def has_compiled_code(net: WhitenedNetwork) -> bool:
    """Return whether compiled code can follow this network's chains, one at a time.

    They must be on a CPU, have one prior width a layer, and have the same labels.
    """
    return net.isotropic and net.y.ndim == 1 and net.y.device.type == "cpu"


def network_of_chain(net: WhitenedNetwork, chain: int) -> WhitenedNetwork:
    """Return the network of one chain of a batch."""
    fixed = net.fixed_preactivation
    if fixed is None:
        return net
    return replace(net, fixed_preactivation=fixed[chain : chain + 1])


def stacked(layers_by_chain: Sequence[Arrays]) -> Layers:
    """Return layers (chain, out, in) from every chain's list of (out, in)."""
    return [torch.from_numpy(np.stack(layers)) for layers in zip(*layers_by_chain, strict=True)]


class CompiledDensity:
    """Log density of one chain.

    `set_weights` and then calls give log p(y | z, scales) + log p(scales) at many states for one z.
    `in_frames` gives the log density of (zeta, scales) without exp(-|zeta|^2 / 2). If `net` has
    fixed weights of some inputs, they are those of this chain.
    """

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames = ()) -> None:
        self._prior = prior
        self._frames = CompiledFrames(net, frames)
        self._n_rows = net.n_rows
        self._inputs = net.inputs.numpy()
        self._base = net.base.numpy()
        fixed = net.fixed_preactivation
        self._fixed = None if fixed is None else fixed[0].numpy()
        dtype = self._inputs.dtype
        self._largest = float(np.finfo(dtype).max)
        *self._theta_hat, centre = (t.numpy() for t in net.theta_hat)
        self._centre = centre.astype(np.float64)[0]
        units = [t.shape[0] for t in self._theta_hat]
        self._first = np.empty((net.n_rows, units[0]), dtype)  # added by the first layer at scale 1
        self._pre = [np.empty((net.n_rows, k), dtype) for k in units]
        self._zeros = [np.zeros((1, k), dtype) for k in units]
        self._weights = [np.empty_like(t) for t in self._theta_hat]
        # the features of the last layer, in float64, have the labels as one more column
        self._wide: Arrays = [np.ones((net.n_rows, k + 1), dtype) for k in units[:-1]]
        self._wide.append(np.full((net.n_rows, units[-1] + 2), net.constant))
        self._wide[-1][:, -1] = net.y.numpy()
        q = units[-1] + 1
        self._products = np.empty((q + 1, q + 1))
        self._factor = np.empty((q, q))
        self._upper: Arrays = []

    @silent()
    def set_weights(self, z: Arrays) -> None:
        """Take the weights z, a list of (out, in), of the next calls; no copy is made."""
        multiply(self._inputs, z[0].T, out=self._first)
        if self._fixed is not None:
            self._first += self._fixed
        self._upper = z[1:]

    @silent()
    def __call__(self, state: Floats) -> float:
        """Return the log density at a state (width,), -inf outside the range of numbers."""
        if not abs(state).max() <= LARGEST_LOG:
            return -math.inf
        scales = self._prior.plain_scales(state)
        if not max(scales.s) < self._largest:
            return -math.inf
        compiled_kernels.rectify_exactly(self._first, self._base, scales.s[0], self._wide[0])
        for i in range(1, len(self._wide)):
            compiled_kernels.add_scaled(
                self._theta_hat[i], self._upper[i - 1], scales.s[i], self._weights[i]
            )
            pre = multiply(self._wide[i - 1], self._weights[i].T, out=self._pre[i])
            compiled_kernels.rectify_exactly(pre, self._zeros[i], 1.0, self._wide[i])
        multiply(self._wide[-1].T, self._wide[-1], out=self._products)
        likelihood = compiled_output.log_likelihood(
            self._products,
            self._centre,
            scales.rho,
            scales.sigma,
            self._n_rows,
            LARGEST_SIGNAL,
            self._factor,
        )
        value = likelihood + self._prior.plain_density(state)[0]
        return value if math.isfinite(value) else -math.inf

    @silent()
    def in_frames(self, zeta: Arrays, state: Floats) -> float:
        """Return the log density of (zeta, scales), -inf outside the range of numbers.

        `zeta` is a list of (out, in), `state` has shape (width,). Without frames zeta is z.
        """
        if not abs(state).max() <= LARGEST_LOG:
            return -math.inf
        s = self._prior.plain_scales(state).s
        self.set_weights(self._frames.z_of(zeta, s))
        return self(state) + self._frames.log_density_change(zeta, s)
