"""The exact log density of one chain on a CPU, at many states of the scales: arrays made once, loops compiled."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from bandgap.inference.network import lean_kernels
from bandgap.inference.network.joint_density import LARGEST_LOG, LARGEST_SIGNAL
from bandgap.inference.network.lean_force import LeanPlace
from bandgap.inference.network.lean_kernels import multiply
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


def can_be_lean(net: WhitenedNetwork) -> bool:
    """Return whether chains of this network can be followed one at a time: on a CPU, alike but for their weights."""
    return net.isotropic and net.y.ndim == 1 and net.y.device.type == "cpu"


def of_chain(net: WhitenedNetwork, chain: int) -> WhitenedNetwork:
    """Return the network of one chain of a batch."""
    return net if net.rest is None else replace(net, rest=net.rest[chain : chain + 1])


def stacked(each: Sequence[Layers]) -> Layers:
    """Return layers (chain, out, in) of those of every chain, each a list of (out, in)."""
    return [torch.stack(layers) for layers in zip(*each, strict=True)]


class LeanDensity:
    """log p(y | z, scales) + log p(scales) of `joint_density.log_density`, up to rounding errors."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior) -> None:
        """Make the arrays; where `net` holds weights of some inputs fixed, it holds those of one chain."""
        self._net, self._prior, self._largest = net, prior, torch.finfo(net.base.dtype).max
        self._base = net.base.numpy()
        self._start = net.theta_hat[-1].double().numpy()[0]
        units = [t.shape[0] for t in net.theta_hat[:-1]]
        self._added = net.base.new_empty(net.n_rows, units[0])  # by the first layer at scale 1
        self._pre = [net.base.new_empty(net.n_rows, k) for k in units]
        self._nothing = [np.zeros((1, k), self._base.dtype) for k in units]
        self._weights = [net.base.new_empty(shape) for shape in net.shapes]
        # the features of the last layer, in float64, have the labels as one more column
        self._wide = [net.base.new_ones(net.n_rows, k + 1) for k in units[:-1]]
        self._wide += [torch.full((net.n_rows, units[-1] + 2), net.constant, dtype=torch.float64)]
        self._wide[-1][:, -1] = net.y
        q = units[-1] + 1
        self._products, self._factor = torch.empty(q + 1, q + 1, dtype=torch.float64), np.empty((q, q))
        self._upper: Layers = []

    def place(self, z: Layers) -> None:
        """Take the weights z, a list of (out, in), at which states are asked for from now on, without a copy."""
        multiply(self._net.inputs, z[0].T, out=self._added)
        if self._net.rest is not None:
            self._added.add_(self._net.rest[0])
        self._upper = z[1:]

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
                torch.add(self._net.theta_hat[i], self._upper[i - 1], alpha=scales.s[i], out=self._weights[i])
                added = multiply(self._wide[i - 1], self._weights[i].T, out=self._pre[i])
            lean_kernels.rectify_exactly(added.numpy(), base, s, wide.numpy())
        multiply(self._wide[-1].T, self._wide[-1], out=self._products)
        likelihood = lean_kernels.log_likelihood(
            self._products.numpy(),
            self._start,
            scales.rho,
            scales.sigma,
            self._net.n_rows,
            LARGEST_SIGNAL,
            self._factor,
        )
        value = likelihood + self._prior.plain_density(state)[0]
        return value if math.isfinite(value) else -math.inf


class FramedDensity:
    """log density of (zeta, scales), without exp(-|zeta|^2 / 2): `joint_density.exact_value` of one chain."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames) -> None:
        self._density, self._place, self._prior = LeanDensity(net, prior), LeanPlace(net, frames), prior

    def __call__(self, zeta: Layers, state: Floats) -> float:
        """Return it at zeta, a list of (out, in), and a state (width,); minus infinity outside the range of numbers."""
        if not abs(state).max() <= LARGEST_LOG:
            return -math.inf
        s = self._prior.plain_scales(state).s
        self._density.place(self._place(zeta, s))
        return self._density(state) + self._place.gained(zeta, s)
