r"""The force along a path of one chain on a CPU: products into existing arrays, compiled loops.

The same numbers as `joint_density.log_force` with rounded ReLU, up to rounding errors
(`test_compiled_force.py`). It exists for speed: on arrays of this size (500 rows, 128 units), new
memory, small operations and changes from torch's tensors to numpy's arrays cost more than the
arithmetic. The last layer's features have the labels as one more column, so that one product
contains all that the output layer needs of the data.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from bandgap.inference.network import compiled_kernels, compiled_output
from bandgap.inference.network.compiled_kernels import Reals, multiply, silent
from bandgap.inference.network.joint_density import LARGEST_SIGNAL, ROUGH_SIGNAL
from bandgap.inference.network.partial_centring import Frames
from bandgap.inference.network.scales import Floats, PlainScales, ScalePrior
from bandgap.inference.network.whitened_network import WhitenedNetwork

Arrays = list[Reals]  # of the layers of one chain, each (out, in)


class FlatLayers:
    """Layers of one chain, each (out, in), as views of one array."""

    def __init__(self, shapes: Sequence[tuple[int, int]], *, like: Tensor) -> None:
        sizes = [rows * columns for rows, columns in shapes]
        self.all = like.new_empty(sum(sizes)).numpy()
        parts = np.split(self.all, np.cumsum(sizes)[:-1])
        self.layers: Arrays = [
            part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)
        ]

    def fill(self, layers: Sequence[Tensor]) -> None:
        """Copy layers into the array."""
        for target, source in zip(self.layers, layers, strict=True):
            target[:] = source.numpy()

    def square(self) -> float:
        """Return the sum of squares, in float64."""
        return compiled_kernels.square(self.all)


class CompiledFrames:
    """The coordinates zeta of one chain (`partial_centring`). Without frames, zeta is z."""

    def __init__(self, net: WhitenedNetwork, frames: Frames) -> None:
        self._frames = frames
        shapes = net.shapes if frames else []
        self._z, self._rotated, self._factors, self._spare = (
            [net.base.new_empty(shape).numpy() for shape in shapes] for _ in range(4)
        )
        self._outputs = [frame.output_directions.numpy() for frame in frames]
        self._inputs = [
            None if frame.input_directions is None else frame.input_directions.numpy()
            for frame in frames
        ]
        self._information = [frame.information.numpy() for frame in frames]

    def z_of(self, zeta: Arrays, s: list[float]) -> Arrays:
        """Return z, a list of (out, in), at the scales `s`. The next call overwrites it."""
        if not self._frames:
            return zeta
        for i, frame in enumerate(self._frames):
            rotated = self._rotated[i]
            relative = frame.relative_information(s[i])
            compiled_kernels.scale_directions(
                zeta[i], self._information[i], relative, self._factors[i], rotated
            )
            inputs = self._inputs[i]
            if inputs is None:
                multiply(self._outputs[i], rotated, out=self._z[i])
            else:
                multiply(self._outputs[i], rotated, out=self._spare[i])
                multiply(self._spare[i], inputs.T, out=self._z[i])
        return self._z

    def log_density_change(self, zeta: Arrays, s: list[float]) -> float:
        """Return `partial_centring.FramePoint.log_density_change`."""
        return sum(
            compiled_kernels.log_density_change(
                zeta[i], self._information[i], frame.relative_information(s[i])
            )
            for i, frame in enumerate(self._frames)
        )

    def convert_gradients(self, zeta: Arrays, by_z: Arrays, by_log_square: list[float]) -> None:
        """Convert gradients by z and by log s^2 to those of (zeta, scales), in place.

        `zeta` is that of the last call of `z_of`.
        """
        for i, outputs in enumerate(self._outputs):
            rotated_gradient = self._z[i]
            inputs = self._inputs[i]
            if inputs is None:
                multiply(outputs.T, by_z[i], out=rotated_gradient)
            else:
                multiply(outputs.T, by_z[i], out=self._spare[i])
                multiply(self._spare[i], inputs, out=rotated_gradient)
            by_log_square[i] -= 0.5 * compiled_kernels.gradient_by_zeta(
                rotated_gradient, self._rotated[i], self._factors[i], zeta[i], by_z[i]
            )


class CompiledForce:
    """Gradients by zeta (z, without frames) and by the scales' state, for one chain.

    If `net` has fixed weights of some inputs, they are those of this chain.
    """

    def __init__(
        self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames, widths: Sequence[float]
    ) -> None:
        self._prior = prior
        self._frames = CompiledFrames(net, frames)
        self._inputs = net.inputs.numpy()
        self._twice_widths = [2.0 * w for w in widths]
        self._n_rows = net.n_rows
        self._narrowest = min(1.0, *self._twice_widths)
        self._largest = float(np.finfo(self._inputs.dtype).max)
        self._shifted = (net.base + widths[0]).numpy()
        if net.fixed_preactivation is None:
            self._fixed = np.zeros_like(self._shifted)
        else:
            self._fixed = net.fixed_preactivation[0].contiguous().numpy()
        self._centre = net.theta_hat[-1].double().numpy()[0]
        self._square = float((net.y**2).sum())
        # theta_hat of the layers above the first, for features times 2 w, with w added to biases
        self._theta_hat = [t.numpy().copy() for t in net.theta_hat[:-1]]
        for i, w in enumerate(widths[1:], start=1):
            self._theta_hat[i][:, -1] += w
            self._theta_hat[i] /= self._twice_widths[i - 1]
        self.by_zeta = FlatLayers(net.shapes, like=net.base)
        self._weights = [np.empty_like(t) for t in self._theta_hat]
        units = [t.shape[0] for t in self._theta_hat]
        dtype = self._inputs.dtype
        # inputs of units; their gradients overwrite them, because what fits into a cache is faster
        self._pre = [np.empty((net.n_rows, k), dtype) for k in units]
        self._gate = [np.empty((net.n_rows, k), dtype) for k in units]
        columns = [*(k + 1 for k in units[:-1]), units[-1] + 2]
        self._wide = [np.empty((net.n_rows, k), dtype) for k in columns]
        for i, (wide, k) in enumerate(zip(self._wide, units, strict=True)):
            constant = 1.0 if i + 1 < len(units) else net.constant
            wide[:, k] = self._twice_widths[i] * constant
        self._wide[-1][:, -1] = net.y.numpy()
        q = units[-1] + 1
        self._products = np.empty((q + 1, q + 1), dtype)
        self._double_products = np.empty((q + 1, q + 1))
        self._by_features = np.empty((q + 1, q - 1), dtype)
        self._factor = np.empty((q, q))
        self._inverse = np.empty((q, q))

    @silent()
    def __call__(self, zeta: Arrays, state: Floats) -> Floats | None:
        """Write the gradients by zeta into `by_zeta` and return that by the state (width,).

        `zeta` is a list of (out, in). None where numbers are not finite or the output's signal is
        too large.
        """
        scales = self._prior.plain_scales(state)
        if not self._in_range(scales):
            return None
        z = self._frames.z_of(zeta, scales.s)
        is_valid, by_log_rho, by_log_sigma = self._forward(z, scales)
        if not is_valid:
            return None
        by_log_square = self._backward(z, scales.s)
        self._frames.convert_gradients(zeta, self.by_zeta.layers, by_log_square)
        by_state = self._prior.plain_by_state(state, [*by_log_square, by_log_rho], by_log_sigma)
        by_state += self._prior.plain_density(state)[1]
        return by_state if bool(np.isfinite(by_state).all()) else None

    def _in_range(self, scales: PlainScales) -> bool:
        relative = [s / self._narrowest for s in scales.s]
        return all(
            0.0 < number < self._largest for number in (*relative, scales.rho, scales.sigma**2)
        )

    @silent()
    def by_first_layer(self, z: Arrays, scales: PlainScales) -> Reals | None:
        """Return the gradient by the first layer's z alone, (out, in), without frames.

        The next call overwrites it. None as in a call of the force.
        """
        by_z = self.by_zeta.layers[0]
        if self._in_range(scales) and self._forward(z, scales)[0]:
            self._backward_to_first(scales.s)
            if bool(np.isfinite(by_z.sum())):
                return by_z
        return None

    def _forward(self, z: Arrays, scales: PlainScales) -> tuple[bool, float, float]:
        """Write every layer's features and gates, both times 2 w; return what `_output` does."""
        s = scales.s
        multiply(self._inputs, z[0].T, out=self._pre[0])
        for i, twice_width in enumerate(self._twice_widths):
            pre = self._pre[i]
            gate = self._gate[i]
            wide = self._wide[i]
            if i == 0:
                compiled_kernels.rectify_first(
                    pre, self._shifted, self._fixed, s[0], twice_width, gate, wide
                )
                continue
            compiled_kernels.add_scaled(
                self._theta_hat[i], z[i], s[i] / self._twice_widths[i - 1], self._weights[i]
            )
            multiply(self._wide[i - 1], self._weights[i].T, out=pre)
            compiled_kernels.rectify(pre, twice_width, gate, wide)
        return self._output(scales)

    def _output(self, scales: PlainScales) -> tuple[bool, float, float]:
        """Integrate the output layer out.

        Returns whether that succeeded, and the derivatives by log rho and log sigma. The products
        of the features are made in float64 where the output is too large for float32.
        """
        wide = self._wide[-1]
        products = multiply(wide.T, wide, out=self._products)
        result = self._integrate(products, scales, ROUGH_SIGNAL)
        if not result[0]:
            double = wide.astype(np.float64)
            products = multiply(double.T, double, out=self._double_products)
            result = self._integrate(products, scales, LARGEST_SIGNAL)
        return result

    def _integrate(
        self, products: Reals, scales: PlainScales, largest_signal: float
    ) -> tuple[bool, float, float]:
        variance = scales.sigma**2
        is_valid, by_log_rho, misfit = compiled_output.integrate(
            products,
            self._centre,
            self._square,
            scales.rho,
            variance,
            self._twice_widths[-1],
            largest_signal,
            self._factor,
            self._inverse,
            self._by_features,
        )
        return is_valid, by_log_rho, misfit / variance - self._n_rows

    def _backward(self, z: Arrays, s: list[float]) -> list[float]:
        """Write the gradients by z; return those by the layers' log s^2 with z fixed."""
        by_z = self.by_zeta.layers
        along_fixed = self._backward_to_first(s, upper=by_z[1:])
        by_log_square = [0.5 * compiled_kernels.inner(q, g) for q, g in zip(z, by_z, strict=True)]
        by_log_square[0] += 0.5 * s[0] * along_fixed
        return by_log_square

    def _backward_to_first(self, s: list[float], *, upper: Arrays | None = None) -> float:
        """Write the gradient by the first layer's z, and into `upper` those by the other layers'.

        Returns the product of the first layer's gradient with its fixed pre-activations.
        """
        g = multiply(self._wide[-1], self._by_features, out=self._pre[-1])
        for i in range(len(self._twice_widths) - 1, 0, -1):
            np.multiply(g, self._gate[i], out=g)
            if upper is not None:
                by_z = multiply(g.T, self._wide[i - 1], out=upper[i - 1])
                np.multiply(by_z, s[i] / self._twice_widths[i - 1], out=by_z)
            g = multiply(g, self._weights[i][:, :-1], out=self._pre[i - 1])
        along_fixed = compiled_kernels.gate_first(g, self._gate[0], self._fixed)
        by_z = multiply(g.T, self._inputs, out=self.by_zeta.layers[0])
        np.multiply(by_z, s[0], out=by_z)
        return along_fixed
