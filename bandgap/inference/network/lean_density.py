"""The exact log density of one chain on a CPU, at many states of the scales: arrays made once, loops compiled."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from bandgap.inference.network import lean_kernels, lean_output
from bandgap.inference.network.joint_density import LARGEST_LOG, LARGEST_SIGNAL
from bandgap.inference.network.lean_force import Arrays, LeanPlace
from bandgap.inference.network.lean_kernels import multiply, silent
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


def can_be_lean(net: WhitenedNetwork) -> bool:
    """Return whether chains of this network can be followed one at a time: on a CPU, alike but for their weights."""
    return net.isotropic and net.y.ndim == 1 and net.y.device.type == "cpu"


def of_chain(net: WhitenedNetwork, chain: int) -> WhitenedNetwork:
    """Return the network of one chain of a batch."""
    return net if net.rest is None else replace(net, rest=net.rest[chain : chain + 1])


def stacked(each: Sequence[Arrays]) -> Layers:
    """Return layers (chain, out, in) of those of every chain, each a list of (out, in)."""
    return [torch.from_numpy(np.stack(layers)) for layers in zip(*each, strict=True)]


class LeanDensity:
    """log p(y | z, scales) + log p(scales) of `joint_density.log_density`, up to rounding errors."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior) -> None:
        """Make the arrays; where `net` holds weights of some inputs fixed, it holds those of one chain."""
        self._prior, self._n_rows, self._inputs = prior, net.n_rows, net.inputs.numpy()
        self._base, self._rest = net.base.numpy(), None if net.rest is None else net.rest[0].numpy()
        dtype = self._inputs.dtype
        self._largest = float(np.finfo(dtype).max)
        *self._centres, start = (t.numpy() for t in net.theta_hat)
        self._start = start.astype(np.float64)[0]
        units = [t.shape[0] for t in self._centres]
        self._added = np.empty((net.n_rows, units[0]), dtype)  # by the first layer at scale 1
        self._pre = [np.empty((net.n_rows, k), dtype) for k in units]
        self._nothing = [np.zeros((1, k), dtype) for k in units]
        self._weights = [np.empty_like(t) for t in self._centres]
        # the features of the last layer, in float64, have the labels as one more column
        self._wide: Arrays = [np.ones((net.n_rows, k + 1), dtype) for k in units[:-1]]
        self._wide.append(np.full((net.n_rows, units[-1] + 2), net.constant))
        self._wide[-1][:, -1] = net.y.numpy()
        q = units[-1] + 1
        self._products, self._factor = np.empty((q + 1, q + 1)), np.empty((q, q))
        self._upper: Arrays = []

    @silent()
    def place(self, z: Arrays) -> None:
        """Take the weights z, a list of (out, in), at which states are asked for from now on, without a copy."""
        multiply(self._inputs, z[0].T, out=self._added)
        if self._rest is not None:
            self._added += self._rest
        self._upper = z[1:]

    @silent()
    def __call__(self, state: Floats) -> float:
        """Return the log density at a state (width,), minus infinity outside the range of numbers."""
        if not abs(state).max() <= LARGEST_LOG:
            return -math.inf
        scales = self._prior.plain_scales(state)
        if not max(scales.s) < self._largest:
            return -math.inf
        added = self._added
        for i, wide in enumerate(self._wide):
            base, s = (self._base, scales.s[0]) if i == 0 else (self._nothing[i], 1.0)
            if i:
                lean_kernels.add_scaled(
                    self._centres[i], self._upper[i - 1], scales.s[i], self._weights[i]
                )
                added = multiply(self._wide[i - 1], self._weights[i].T, out=self._pre[i])
            lean_kernels.rectify_exactly(added, base, s, wide)
        multiply(self._wide[-1].T, self._wide[-1], out=self._products)
        likelihood = lean_output.log_likelihood(
            self._products,
            self._start,
            scales.rho,
            scales.sigma,
            self._n_rows,
            LARGEST_SIGNAL,
            self._factor,
        )
        value = likelihood + self._prior.plain_density(state)[0]
        return value if math.isfinite(value) else -math.inf


class FramedDensity:
    """log density of (zeta, scales), without exp(-|zeta|^2 / 2): `joint_density.exact_value` of one chain."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames) -> None:
        self._density, self._place, self._prior = (
            LeanDensity(net, prior),
            LeanPlace(net, frames),
            prior,
        )

    @silent()
    def __call__(self, zeta: Arrays, state: Floats) -> float:
        """Return it at zeta, a list of (out, in), and a state (width,); minus infinity outside the range of numbers."""
        if not abs(state).max() <= LARGEST_LOG:
            return -math.inf
        s = self._prior.plain_scales(state).s
        self._density.place(self._place(zeta, s))
        return self._density(state) + self._place.gained(zeta, s)
