r"""The force along a path of one chain on a CPU: matrix products into arrays made once, compiled loops between them.

The same numbers as `joint_density.log_force` with rounded ReLU, up to rounding errors. On arrays of this size (500
rows, 128 units) making new memory and small operations cost more than arithmetic does. The last layer's features have
the labels as one more column, so that one product holds all that the output layer asks of the data.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network import lean_kernels
from bandgap.inference.network.joint_density import LARGEST_SIGNAL, ROUGH_SIGNAL
from bandgap.inference.network.lean_kernels import multiply
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, PlainScales, ScalePrior
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork


class Flat:
    """Layers of one chain, each (out, in), that lie in one array behind each other."""

    def __init__(self, shapes: Sequence[tuple[int, int]], *, like: Tensor) -> None:
        sizes = [rows * columns for rows, columns in shapes]
        self.all = like.new_empty(sum(sizes))
        self.layers = [part.view(shape) for part, shape in zip(torch.split(self.all, sizes), shapes, strict=True)]

    def fill(self, layers: Layers) -> None:
        """Copy layers in."""
        for mine, theirs in zip(self.layers, layers, strict=True):
            mine.copy_(theirs)

    def square(self) -> float:
        """Return the sum of squares, added up in float64."""
        return float(torch.linalg.vector_norm(self.all, dtype=torch.float64)) ** 2


class LeanPlace:
    """Where zeta of one chain is at its scales (`partial_centring.place`); without frames it is z."""

    def __init__(self, net: WhitenedNetwork, frames: Frames) -> None:
        self.frames = frames
        self.z, self.turned, self.factors, self.spare = (
            [net.base.new_empty(shape) for shape in net.shapes] for _ in range(4)
        )

    def __call__(self, zeta: Layers, s: list[float]) -> Layers:
        """Return z, a list of (out, in), which the next call overwrites; with frames, write it in their directions."""
        if not self.frames:
            return zeta
        for i, frame in enumerate(self.frames):
            turned = self.turned[i]
            lean_kernels.enter_directions(
                zeta[i].numpy(), frame.information.numpy(), frame.grown(s[i]), self.factors[i].numpy(), turned.numpy()
            )
            if frame.right is None:
                multiply(frame.left, turned, out=self.z[i])
            else:
                multiply(frame.left, turned, out=self.spare[i])
                multiply(self.spare[i], frame.right.T, out=self.z[i])
        return self.z

    def gained(self, zeta: Layers, s: list[float]) -> float:
        """Return `partial_centring.Place.added`."""
        return sum(
            lean_kernels.gained_in_directions(zeta[i].numpy(), frame.information.numpy(), frame.grown(s[i]))
            for i, frame in enumerate(self.frames)
        )

    def leave(self, zeta: Layers, by_z: Layers, by_log_square: list[float]) -> None:
        """Make gradients by z those by zeta, and take what frames change of those by the scales into account."""
        for i, frame in enumerate(self.frames):
            turned = self.z[i]
            if frame.right is None:
                multiply(frame.left.T, by_z[i], out=turned)
            else:
                multiply(frame.left.T, by_z[i], out=self.spare[i])
                multiply(self.spare[i], frame.right, out=turned)
            by_log_square[i] -= 0.5 * lean_kernels.leave_directions(
                turned.numpy(), self.turned[i].numpy(), self.factors[i].numpy(), zeta[i].numpy(), by_z[i].numpy()
            )


class LeanForce:
    """Gradients by zeta (or z, without frames) and by the scales' state."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames, widths: Sequence[float]) -> None:
        """Make the arrays; where `net` holds weights of some inputs fixed, it holds those of one chain."""
        self._prior, self._place, self._inputs = prior, LeanPlace(net, frames), net.inputs
        self._doubled, self._n_rows = [2.0 * w for w in widths], net.n_rows
        self._shifted = (net.base + widths[0]).numpy()
        self._rest = np.zeros_like(self._shifted) if net.rest is None else net.rest[0].contiguous().numpy()
        self._start, self._square = net.theta_hat[-1].double().numpy()[0], float((net.y**2).sum())
        # theta_hat of the layers above the first, for inputs that are kept times 2 w, with w added to their biases
        self._moved = [net.theta_hat[0], *(t.clone() for t in net.theta_hat[1:-1])]
        for i, w in enumerate(widths[1:], start=1):
            self._moved[i][:, -1] += w
            self._moved[i] /= self._doubled[i - 1]
        self.by_zeta = Flat(net.shapes, like=net.base)
        self._weights = [net.base.new_empty(shape) for shape in net.shapes]
        units = [t.shape[0] for t in net.theta_hat[:-1]]
        # inputs of units; gradients by them overwrite them, as what fits into a cache is faster
        self._pre, self._gate = ([net.base.new_empty(net.n_rows, k) for k in units] for _ in range(2))
        columns = [*(k + 1 for k in units[:-1]), units[-1] + 2]
        self._wide = [net.base.new_empty(net.n_rows, k) for k in columns]
        for i, (wide, k) in enumerate(zip(self._wide, units, strict=True)):
            wide[:, k] = self._doubled[i] * (1.0 if i + 1 < len(units) else net.constant)
        self._wide[-1][:, -1] = net.y
        q = units[-1] + 1
        self._products, self._tail = net.base.new_empty(q + 1, q + 1), net.base.new_empty(q + 1, q - 1)
        self._fine = torch.empty(q + 1, q + 1, dtype=torch.float64)
        self._factored, self._inverse = np.empty((q, q)), np.empty((q, q))

    def __call__(self, zeta: Layers, state: Floats) -> Floats | None:
        """Write the gradients by zeta into `by_zeta` and return that by the state (width,).

        `zeta` is a list of (out, in). None where float32 is too coarse or numbers left their range.
        """
        scales = self._prior.plain_scales(state)
        if not self._in_range(scales):
            return None
        z = self._place(zeta, scales.s)
        fine, by_log_rho, by_log_sigma = self._forward(z, scales)
        if not fine:
            return None
        by_log_square = self._backward(z, scales.s)
        self._place.leave(zeta, self.by_zeta.layers, by_log_square)
        by_state = self._prior.plain_by_state(state, [*by_log_square, by_log_rho], by_log_sigma)
        by_state += self._prior.plain_density(state)[1]
        return by_state if bool(np.isfinite(by_state).all()) else None

    def _in_range(self, scales: PlainScales) -> bool:
        largest = torch.finfo(self._inputs.dtype).max
        by_width = [s / min(1.0, *self._doubled) for s in scales.s]
        return all(0.0 < number < largest for number in (*by_width, scales.rho, scales.sigma**2))

    def by_first_layer(self, z: Layers, scales: PlainScales) -> Tensor | None:
        """Return the gradient by the first layer's z alone, (out, in), or None as above.

        There are no frames; the next call overwrites it.
        """
        by_z = self.by_zeta.layers[0]
        if self._in_range(scales) and self._forward(z, scales)[0]:
            self._backward_to_first(scales.s)
            if bool(torch.isfinite(by_z.sum())):
                return by_z
        return None

    def _forward(self, z: Layers, scales: PlainScales) -> tuple[bool, float, float]:
        """Write every layer's features and gates, both times 2 w, and return what `_output` does."""
        s = scales.s
        multiply(self._inputs, z[0].T, out=self._pre[0])
        for i, (doubled, pre) in enumerate(zip(self._doubled, self._pre, strict=True)):
            gate, wide = self._gate[i].numpy(), self._wide[i].numpy()
            if i == 0:
                lean_kernels.rectify_first(pre.numpy(), self._shifted, self._rest, s[0], doubled, gate, wide)
                continue
            torch.add(self._moved[i], z[i], alpha=s[i] / self._doubled[i - 1], out=self._weights[i])
            multiply(self._wide[i - 1], self._weights[i].T, out=pre)
            lean_kernels.rectify(pre.numpy(), doubled, gate, wide)
        return self._output(scales)

    def _output(self, scales: PlainScales) -> tuple[bool, float, float]:
        """Integrate the output layer out; return whether that went well, and derivatives by log rho and log sigma.

        The products of the features are made in float64 where float32 is too coarse for them: where the prior lets the
        network's output be large.
        """
        multiply(self._wide[-1].T, self._wide[-1], out=self._products)
        found = self._integrated(self._products, scales, ROUGH_SIGNAL)
        if not found[0]:
            wide = self._wide[-1].double()
            found = self._integrated(multiply(wide.T, wide, out=self._fine), scales, LARGEST_SIGNAL)
        return found

    def _integrated(self, products: Tensor, scales: PlainScales, largest: float) -> tuple[bool, float, float]:
        variance = scales.sigma**2
        fine, by_log_rho, misfit = lean_kernels.integrate(
            products.numpy(),
            self._start,
            self._square,
            scales.rho,
            variance,
            self._doubled[-1],
            largest,
            self._factored,
            self._inverse,
            self._tail.numpy(),
        )
        return fine, by_log_rho, misfit / variance - self._n_rows

    def _backward(self, z: Layers, s: list[float]) -> list[float]:
        """Write the gradients by z, and return those by the layers' log s^2 at fixed z."""
        by_z = self.by_zeta.layers
        along = self._backward_to_first(s, upper=by_z[1:])
        by_log_square = [0.5 * float(torch.dot(q.flatten(), g.flatten())) for q, g in zip(z, by_z, strict=True)]
        by_log_square[0] += 0.5 * s[0] * along
        return by_log_square

    def _backward_to_first(self, s: list[float], *, upper: Layers | None = None) -> float:
        """Write the gradient by the first layer's z, with `upper` those by the others' too; return what fixed z add."""
        g = multiply(self._wide[-1], self._tail, out=self._pre[-1])
        for i in range(len(self._doubled) - 1, 0, -1):
            g.mul_(self._gate[i])
            if upper is not None:
                multiply(g.T, self._wide[i - 1], out=upper[i - 1]).mul_(s[i] / self._doubled[i - 1])
            g = multiply(g, self._weights[i][:, :-1], out=self._pre[i - 1])
        along: float = lean_kernels.gate_first(g.numpy(), self._gate[0].numpy(), self._rest)
        multiply(g.T, self._inputs, out=self.by_zeta.layers[0]).mul_(s[0])
        return along
