"""The joint posterior of a network's weights and scales as a sum over rows, for mini-batches.

theta_l = theta_hat_l + s_l z_l for every layer, the output layer included, z ~ N(0, I), with scales
from a `ScalePrior`. A position is the flat vector (zeta_1, ..., zeta_L, state of the scales /
units). zeta is z in the frames of the layers (`network_frames.py`): z is f zeta, rotated back. One
step length then suits all entries. With r = y - f(x), s_L = sigma sqrt(rho) and u_l = (s_l /
sigma)^2, on which f depends by d log f / d log u = (f^2 - 1) / 2,

    d log p / d z_l       = s_l sum_i (r_i / sigma^2) df_i / dtheta_l - z_l,
    d log p / d log sigma = sum_i (r_i^2 / sigma^2 - 1)   at fixed s_l and z_l,

plus the Jacobian, which is the sum of log f, and the terms of the prior's own coordinates. The
density of the scales is no sum over rows and is computed exactly.
"""

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from bandgap.inference.network.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork
from bandgap.research.stochastic_gradient.network_frames import (
    LayerFrame,
    layer_frame,
    plain_frame,
    squares_in,
)


@dataclass(frozen=True, eq=False)
class NetworkTarget:
    """Log posterior of a whitened network with isotropic layers.

    `units` (width,) are the units of the state of the scales. The frames are shared by all chains.
    """

    net: WhitenedNetwork
    prior: ScalePrior
    frames: tuple[LayerFrame, ...]
    units: Tensor

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.net.n_rows

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (out, in) of z of every layer, the output layer included."""
        last = self.net.theta_hat[-1].shape
        return [*self.net.shapes, (int(last[0]), int(last[1]))]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First index and end of every layer's zeta in a position."""
        spans = []
        first = 0
        for shape in self.shapes:
            end = first + prod(shape)
            spans.append((first, end))
            first = end
        return spans

    @property
    def size(self) -> int:
        """Length of a position."""
        return self.spans[-1][1] + int(self.units.shape[0])

    @property
    def free_share(self) -> Tensor:
        """Posterior over prior variance (dim,) of every entry, 0 for the scales."""
        weights = torch.cat([frame.free_share.flatten() for frame in self.frames])
        return torch.nn.functional.pad(weights, (0, int(self.units.shape[0])))

    def layers(self, position: Tensor) -> Layers:
        """Return z of every layer (chain, out, in) of positions (chain, dim)."""
        return self._unpack(position).z

    def state(self, position: Tensor) -> Tensor:
        """Return the state of the scales (..., width) at positions (..., dim), in float64."""
        return position[..., self.spans[-1][1] :].double() * self.units

    def position(self, z: Layers, state: Tensor) -> Tensor:
        """Return the positions (chain, dim) of weights and scales.

        `z` are (chain, out, in) for every layer, `state` is (chain, width).
        """
        relative = self._relative(self.prior.scales(state))
        zeta = [
            frame.turned(q) / frame.factors(relative[:, i])
            for i, (frame, q) in enumerate(zip(self.frames, z, strict=True))
        ]
        return self._joined(zeta, state / self.units)

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return the gradient (chain, dim) of the prior of zeta and of the scales."""
        unpacked = self._unpack(position)
        by_zeta = [-f * q for f, q in zip(unpacked.factors, unpacked.turned, strict=True)]
        by_entry = [
            0.5 * ((1.0 - f * f) * (q * q - 1.0))
            for f, q in zip(unpacked.factors, unpacked.turned, strict=True)
        ]
        by_square = torch.stack([layer.flatten(1).double().sum(1) for layer in by_entry], 1)
        by_scales = ScaleGradient(by_square, -2.0 * by_square[:, :-1].sum(1))
        by_state = self.prior.log_density_and_gradient(unpacked.state.cpu())[1].to(by_square)
        return self._joined(
            by_zeta, (by_state + self.prior.by_state(unpacked.state, by_scales)) * self.units
        )

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the gradient (chain, dim) of the log likelihood of rows (chain, n)."""
        unpacked = self._unpack(position)
        forward = self._forward(unpacked.z, unpacked.scales, rows)
        residual = self.net.y[rows].to(position) - forward.output
        variance = (unpacked.scales.sigma**2).to(position)[:, None]
        by_z = self._backward(
            unpacked.z, unpacked.scales, forward, (residual / variance).unsqueeze(-1)
        )
        by_turned = [frame.turned(g) for frame, g in zip(self.frames, by_z, strict=True)]
        by_zeta = [f * g for f, g in zip(unpacked.factors, by_turned, strict=True)]
        by_scale_at_z = _dots(by_turned, unpacked.turned)
        f_by_zeta = [f * g for f, g in zip(unpacked.factors, by_zeta, strict=True)]
        by_scale_at_zeta = _dots(f_by_zeta, unpacked.turned)
        by_sigma = (residual.double() ** 2).sum(1) / unpacked.scales.sigma**2 - rows.shape[1]
        by_sigma = by_sigma + by_scale_at_z[:, -1]
        by_scales = ScaleGradient(
            0.5 * by_scale_at_zeta,
            by_sigma - (by_scale_at_zeta - by_scale_at_z)[:, :-1].sum(1),
        )
        return self._joined(by_zeta, self.prior.by_state(unpacked.state, by_scales) * self.units)

    def values(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return f (chain, n) at the same rows (n,) for every chain."""
        unpacked = self._unpack(position)
        return self._forward(unpacked.z, unpacked.scales, rows.expand(position.shape[0], -1)).output

    def reframed(
        self,
        position: Tensor,
        rows: Tensor,
        *,
        frame_positions: Tensor | None = None,
        turn: bool = True,
    ) -> "tuple[NetworkTarget, Tensor]":
        """Return the target in new frames and units, and the positions (chain, dim) there.

        Frames and units are computed from rows (n,) at these positions, or at others,
        `frame_positions` (m, dim). Without `turn` every entry of zeta is one of z and only its
        width is computed.
        """
        unpacked = self._unpack(position if frame_positions is None else frame_positions)
        chains = unpacked.state.shape[0]
        share = self.n_rows / (rows.shape[0] * chains)
        forward = self._forward(unpacked.z, unpacked.scales, rows.expand(chains, -1))
        log_scale = self._relative(unpacked.scales)
        frames = []
        layer_terms = []
        for layer, (g, h) in enumerate(
            zip(self._slopes(unpacked.z, unpacked.scales, forward), forward.inputs, strict=True)
        ):
            by_z = share**0.5 * torch.exp(log_scale[:, layer, None, None]) * g.double()
            h64 = h.double().expand(chains, -1, -1)
            frame = layer_frame(
                by_z.flatten(0, 1),
                h64.flatten(0, 1).to(position),
                log_scale=float(log_scale[:, layer].mean()),
                turn_left=turn,
                turn_right=turn and layer > 0,
            )
            move = frame.factors(log_scale[:, layer]).square() * frame.turned(unpacked.z[layer])
            layer_terms.append(
                0.25 * (by_z * (h64 @ frame.back(move).double().mT)).sum(-1).square().sum()
            )
            frames.append(frame)
        by_layer = torch.stack(layer_terms)
        by_sigma = 2.0 * self.n_rows + 4.0 * by_layer.sum(0, keepdim=True)
        information = torch.cat([by_sigma, by_layer]) + 1.0 / self.prior.units.to(by_layer) ** 2
        units = torch.rsqrt(information)
        target = replace(self, frames=tuple(frames), units=units)
        start = unpacked if frame_positions is None else self._unpack(position)
        return target, target.position(start.z, start.state)

    def batch_variance(
        self, position: Tensor, rows: Tensor, *, n_rows: int, n_drawn: int
    ) -> Tensor:
        """Return the variance (dim,) of a batch's gradient, mean over positions, 0 for scales.

        For a batch of n = `n_drawn` of N = `n_rows` rows, it is N (N / n - 1) times the mean square
        of a row's gradient, here of rows (m,) among the N.
        """
        unpacked = self._unpack(position)
        chains = position.shape[0]
        forward = self._forward(unpacked.z, unpacked.scales, rows.expand(chains, -1))
        variance = unpacked.scales.sigma[:, None] ** 2
        residual = (self.net.y[rows].to(position) - forward.output).double() / variance
        factor = n_rows * (n_rows / n_drawn - 1.0) / (rows.shape[0] * chains)
        by_layer = []
        for layer, (g, h) in enumerate(
            zip(self._slopes(unpacked.z, unpacked.scales, forward), forward.inputs, strict=True)
        ):
            frame = self.frames[layer]
            by_weight = (unpacked.scales.s[:, layer, None] * residual).unsqueeze(-1) * g.double()
            h64 = h.double().expand(chains, -1, -1).flatten(0, 1)
            squares = factor * squares_in(
                frame.left_vectors, frame.right_vectors, by_weight.flatten(0, 1), h64
            )
            factors = (
                frame.factors(self._relative(unpacked.scales)[:, layer]).double().square().mean(0)
            )
            by_layer.append((factors * squares).flatten())
        n_scales = int(self.units.shape[0])
        return torch.nn.functional.pad(torch.cat(by_layer), (0, n_scales)).to(position)

    def row_curvature(self, position: Tensor, *, block: int = 2048) -> Tensor:
        """Return the curvature of every row's log likelihood along its own gradient, (chain, N).

        It is |df / dzeta|^2 / sigma^2, the only eigenvalue of the row's Gauss-Newton matrix by the
        weights.
        """
        unpacked = self._unpack(position)
        by_block = []
        relative = self._relative(unpacked.scales)
        for rows in torch.split(torch.arange(self.n_rows, device=position.device), block):
            forward = self._forward(unpacked.z, unpacked.scales, rows.expand(position.shape[0], -1))
            total = torch.zeros_like(forward.output)
            for layer, (g, h) in enumerate(
                zip(self._slopes(unpacked.z, unpacked.scales, forward), forward.inputs, strict=True)
            ):
                frame = self.frames[layer]
                scale = torch.exp(relative[:, layer]).to(g)[:, None, None]
                by_output = g if frame.left_vectors is None else g @ frame.left_vectors
                by_input = h if frame.right_vectors is None else h @ frame.right_vectors
                squares = (scale * frame.factors(relative[:, layer])).square()
                total += ((by_output.square() @ squares) * by_input.square()).sum(-1)
            by_block.append(total)
        return torch.cat(by_block, 1)

    def _relative(self, scales: Scales) -> Tensor:
        return torch.log(scales.s / scales.sigma[:, None])

    def _joined(self, weights: Layers, state: Tensor) -> Tensor:
        return torch.cat([*[layer.flatten(1) for layer in weights], state.to(weights[0])], 1)

    def _unpack(self, position: Tensor) -> "Unpacked":
        state = self.state(position)
        scales = self.prior.scales(state)
        relative = self._relative(scales)
        turned: Layers = []
        factors: Layers = []
        z: Layers = []
        for layer, ((first, end), shape, frame) in enumerate(
            zip(self.spans, self.shapes, self.frames, strict=True)
        ):
            factors.append(frame.factors(relative[:, layer]))
            turned.append(factors[-1] * position[:, first:end].reshape(-1, *shape))
            z.append(frame.back(turned[-1]))
        return Unpacked(state, scales, factors, turned, z)

    def _scale(self, scales: Scales, layer: int) -> Tensor:
        return scales.s[:, layer, None, None]

    def _forward(self, z: Layers, scales: Scales, rows: Tensor) -> "ForwardPass":
        net = self.net
        dtype = z[0].dtype
        x = net.inputs[rows]
        pre = net.base[rows] + self._scale(scales, 0).to(dtype) * (x @ z[0].mT)
        inputs = [x]
        for layer in range(1, len(z)):
            h = torch.nn.functional.pad(
                torch.relu(pre), (0, 1), value=net.constant if layer == len(z) - 1 else 1.0
            )
            inputs.append(h)
            pre = h @ (net.theta_hat[layer] + self._scale(scales, layer).to(dtype) * z[layer]).mT
        return ForwardPass(inputs, pre.squeeze(-1))

    def _slopes(
        self, z: Layers, scales: Scales, forward: "ForwardPass", start: Tensor | None = None
    ) -> Layers:
        """Return `start` (chain, n, 1) times df by each pre-activation (chain, n, out)."""
        g = torch.ones_like(forward.output).unsqueeze(-1) if start is None else start
        slopes = [g]
        for layer in range(len(z) - 1, 0, -1):
            weight = self.net.theta_hat[layer] + self._scale(scales, layer).to(g) * z[layer]
            g = (g @ weight[..., :-1]) * (forward.inputs[layer][..., :-1] > 0)
            slopes.insert(0, g)
        return slopes

    def _backward(
        self, z: Layers, scales: Scales, forward: "ForwardPass", by_output: Tensor
    ) -> Layers:
        slopes = self._slopes(z, scales, forward, by_output)
        pairs = enumerate(zip(slopes, forward.inputs, strict=True))
        return [self._scale(scales, layer).to(g) * (g.mT @ h) for layer, (g, h) in pairs]


@dataclass(frozen=True, eq=False)
class Unpacked:
    """A position unpacked: state, scales, factors z / zeta, f zeta, and z; each (chain, ...)."""

    state: Tensor
    scales: Scales
    factors: Layers
    turned: Layers
    z: Layers


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """A forward pass: the input (chain, n, in) of every layer, and f (chain, n)."""

    inputs: Layers
    output: Tensor


def network_target(net: WhitenedNetwork, prior: ScalePrior) -> NetworkTarget:
    """Return the target in which zeta is z and the state is in units of 1."""
    last = net.theta_hat[-1].shape
    shapes = [*net.shapes, (int(last[0]), int(last[1]))]
    frames = tuple(plain_frame(shape, net.inputs) for shape in shapes)
    return NetworkTarget(net, prior, frames, torch.ones_like(prior.units, device=net.inputs.device))


def _dots(a: Layers, b: Layers) -> Tensor:
    return torch.stack(
        [
            torch.linalg.vecdot(p.flatten(1), q.flatten(1)).double()
            for p, q in zip(a, b, strict=True)
        ],
        1,
    )
