r"""The force along a path of one chain on a CPU: matrix products into arrays made once, compiled loops between them.

The same numbers as `joint_density.log_force` with rounded ReLU, up to rounding errors. On arrays of this size (500
rows, 128 units) making new memory and small operations cost more than arithmetic does, and so does every change from
torch's tensors to numpy's arrays: here are arrays alone. The last layer's features have the labels as one more column,
so that one product holds all that the output layer asks of the data.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from bandgap.inference.network import lean_kernels, lean_output
from bandgap.inference.network.joint_density import LARGEST_SIGNAL, ROUGH_SIGNAL
from bandgap.inference.network.lean_kernels import Reals, multiply, silent
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, PlainScales, ScalePrior
from bandgap.inference.network.whitened_network import WhitenedNetwork

Arrays = list[Reals]  # of one chain, each (out, in)


class Flat:
    """Layers of one chain, each (out, in), that lie in one array behind each other."""

    def __init__(self, shapes: Sequence[tuple[int, int]], *, like: Tensor) -> None:
        sizes = [rows * columns for rows, columns in shapes]
        self.all = like.new_empty(sum(sizes)).numpy()
        parts = np.split(self.all, np.cumsum(sizes)[:-1])
        self.layers: Arrays = [
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        ]

    def fill(self, layers: Sequence[Tensor]) -> None:
        """Copy layers in."""
        for mine, theirs in zip(self.layers, layers, strict=True):
            mine[:] = theirs.numpy()

    def square(self) -> float:
        """Return the sum of squares, added up in float64."""
        return lean_kernels.square(self.all)


class LeanPlace:
    """Where zeta of one chain is at its scales (`partial_centring.place`); without frames it is z."""

    def __init__(self, net: WhitenedNetwork, frames: Frames) -> None:
        self._frames = frames
        self._z, self._turned, self._factors, self._spare = (
            [net.base.new_empty(shape).numpy() for shape in net.shapes] for _ in range(4)
        )
        self._left = [frame.left.numpy() for frame in frames]
        self._right = [None if frame.right is None else frame.right.numpy() for frame in frames]
        self._information = [frame.information.numpy() for frame in frames]

    def __call__(self, zeta: Arrays, s: list[float]) -> Arrays:
        """Return z, a list of (out, in), which the next call overwrites; with frames, write it in their directions."""
        if not self._frames:
            return zeta
        for i, (frame, left, right) in enumerate(
            zip(self._frames, self._left, self._right, strict=True)
        ):
            turned = self._turned[i]
            lean_kernels.enter_directions(
                zeta[i], self._information[i], frame.grown(s[i]), self._factors[i], turned
            )
            if right is None:
                multiply(left, turned, out=self._z[i])
            else:
                multiply(left, turned, out=self._spare[i])
                multiply(self._spare[i], right.T, out=self._z[i])
        return self._z

    def gained(self, zeta: Arrays, s: list[float]) -> float:
        """Return `partial_centring.Place.added`."""
        return sum(
            lean_kernels.gained_in_directions(zeta[i], self._information[i], frame.grown(s[i]))
            for i, frame in enumerate(self._frames)
        )

    def leave(self, zeta: Arrays, by_z: Arrays, by_log_square: list[float]) -> None:
        """Make gradients by z those by zeta, and take what frames change of those by the scales into account."""
        for i, (left, right) in enumerate(zip(self._left, self._right, strict=True)):
            turned = self._z[i]
            if right is None:
                multiply(left.T, by_z[i], out=turned)
            else:
                multiply(left.T, by_z[i], out=self._spare[i])
                multiply(self._spare[i], right, out=turned)
            by_log_square[i] -= 0.5 * lean_kernels.leave_directions(
                turned, self._turned[i], self._factors[i], zeta[i], by_z[i]
            )


class LeanForce:
    """Gradients by zeta (or z, without frames) and by the scales' state."""

    def __init__(
        self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames, widths: Sequence[float]
    ) -> None:
        """Make the arrays; where `net` holds weights of some inputs fixed, it holds those of one chain."""
        self._prior, self._place, self._inputs = prior, LeanPlace(net, frames), net.inputs.numpy()
        self._doubled, self._n_rows = [2.0 * w for w in widths], net.n_rows
        self._narrowest, self._largest = (
            min(1.0, *self._doubled),
            float(np.finfo(self._inputs.dtype).max),
        )
        self._shifted = (net.base + widths[0]).numpy()
        self._rest = (
            np.zeros_like(self._shifted) if net.rest is None else net.rest[0].contiguous().numpy()
        )
        self._start, self._square = net.theta_hat[-1].double().numpy()[0], float((net.y**2).sum())
        # theta_hat of the layers above the first, for inputs that are kept times 2 w, with w added to their biases
        self._moved = [t.numpy().copy() for t in net.theta_hat[:-1]]
        for i, w in enumerate(widths[1:], start=1):
            self._moved[i][:, -1] += w
            self._moved[i] /= self._doubled[i - 1]
        self.by_zeta = Flat(net.shapes, like=net.base)
        self._weights = [np.empty_like(t) for t in self._moved]
        units, dtype = [t.shape[0] for t in self._moved], self._inputs.dtype
        # inputs of units; gradients by them overwrite them, as what fits into a cache is faster
        self._pre, self._gate = (
            [np.empty((net.n_rows, k), dtype) for k in units] for _ in range(2)
        )
        columns = [*(k + 1 for k in units[:-1]), units[-1] + 2]
        self._wide = [np.empty((net.n_rows, k), dtype) for k in columns]
        for i, (wide, k) in enumerate(zip(self._wide, units, strict=True)):
            wide[:, k] = self._doubled[i] * (1.0 if i + 1 < len(units) else net.constant)
        self._wide[-1][:, -1] = net.y.numpy()
        q = units[-1] + 1
        self._products, self._tail = (
            np.empty((q + 1, q + 1), dtype),
            np.empty((q + 1, q - 1), dtype),
        )
        self._fine, self._factored, self._inverse = (
            np.empty((q + 1, q + 1)),
            np.empty((q, q)),
            np.empty((q, q)),
        )

    @silent()
    def __call__(self, zeta: Arrays, state: Floats) -> Floats | None:
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
        by_width = [s / self._narrowest for s in scales.s]
        return all(
            0.0 < number < self._largest for number in (*by_width, scales.rho, scales.sigma**2)
        )

    @silent()
    def by_first_layer(self, z: Arrays, scales: PlainScales) -> Reals | None:
        """Return the gradient by the first layer's z alone, (out, in), or None as above.

        There are no frames; the next call overwrites it.
        """
        by_z = self.by_zeta.layers[0]
        if self._in_range(scales) and self._forward(z, scales)[0]:
            self._backward_to_first(scales.s)
            if bool(np.isfinite(by_z.sum())):
                return by_z
        return None

    def _forward(self, z: Arrays, scales: PlainScales) -> tuple[bool, float, float]:
        """Write every layer's features and gates, both times 2 w, and return what `_output` does."""
        s = scales.s
        multiply(self._inputs, z[0].T, out=self._pre[0])
        for i, (doubled, pre, gate, wide) in enumerate(
            zip(self._doubled, self._pre, self._gate, self._wide, strict=True)
        ):
            if i == 0:
                lean_kernels.rectify_first(
                    pre, self._shifted, self._rest, s[0], doubled, gate, wide
                )
                continue
            lean_kernels.add_scaled(
                self._moved[i], z[i], s[i] / self._doubled[i - 1], self._weights[i]
            )
            multiply(self._wide[i - 1], self._weights[i].T, out=pre)
            lean_kernels.rectify(pre, doubled, gate, wide)
        return self._output(scales)

    def _output(self, scales: PlainScales) -> tuple[bool, float, float]:
        """Integrate the output layer out; return whether that went well, and derivatives by log rho and log sigma.

        The products of the features are made in float64 where float32 is too coarse for them: where the prior lets the
        network's output be large.
        """
        wide = self._wide[-1]
        found = self._integrated(multiply(wide.T, wide, out=self._products), scales, ROUGH_SIGNAL)
        if not found[0]:
            fine = wide.astype(np.float64)
            found = self._integrated(multiply(fine.T, fine, out=self._fine), scales, LARGEST_SIGNAL)
        return found

    def _integrated(
        self, products: Reals, scales: PlainScales, largest: float
    ) -> tuple[bool, float, float]:
        variance = scales.sigma**2
        fine, by_log_rho, misfit = lean_output.integrate(
            products,
            self._start,
            self._square,
            scales.rho,
            variance,
            self._doubled[-1],
            largest,
            self._factored,
            self._inverse,
            self._tail,
        )
        return fine, by_log_rho, misfit / variance - self._n_rows

    def _backward(self, z: Arrays, s: list[float]) -> list[float]:
        """Write the gradients by z, and return those by the layers' log s^2 at fixed z."""
        by_z = self.by_zeta.layers
        along = self._backward_to_first(s, upper=by_z[1:])
        by_log_square = [0.5 * lean_kernels.inner(q, g) for q, g in zip(z, by_z, strict=True)]
        by_log_square[0] += 0.5 * s[0] * along
        return by_log_square

    def _backward_to_first(self, s: list[float], *, upper: Arrays | None = None) -> float:
        """Write the gradient by the first layer's z, with `upper` those by the others' too; return what fixed z add."""
        g = multiply(self._wide[-1], self._tail, out=self._pre[-1])
        for i in range(len(self._doubled) - 1, 0, -1):
            np.multiply(g, self._gate[i], out=g)
            if upper is not None:
                by_z = multiply(g.T, self._wide[i - 1], out=upper[i - 1])
                np.multiply(by_z, s[i] / self._doubled[i - 1], out=by_z)
            g = multiply(g, self._weights[i][:, :-1], out=self._pre[i - 1])
        along = lean_kernels.gate_first(g, self._gate[0], self._rest)
        by_z = multiply(g.T, self._inputs, out=self.by_zeta.layers[0])
        np.multiply(by_z, s[0], out=by_z)
        return along
