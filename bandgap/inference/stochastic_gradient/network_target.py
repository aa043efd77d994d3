r"""The joint posterior of a network's weights and scales as a sum over rows, for samplers that see mini-batches.

theta_l = theta_hat_l + s_l z_l for every layer, the output layer included, z ~ N(0, I), scales from a `ScalePrior`. A
position is (zeta_1, ..., zeta_L, state of the scales / units), flat; zeta is z in the layers' frames
(`network_frames.py`), z = f zeta turned back, so that one step suits all of it. With r = y - f(x), s_L = sigma
sqrt(rho) and u_l = (s_l / sigma)^2, on which f depends by d log f / d log u = (f^2 - 1) / 2,

    d log p / d z_l       = s_l sum_i (r_i / sigma^2) df_i / dtheta_l - z_l,
    d log p / d log sigma = sum_i (r_i^2 / sigma^2 - 1)   at fixed s_l and z_l,

plus the Jacobian, the sum of log f, and what the prior's own coordinates add. The density of the scales is no sum over
rows and enters whole.
"""

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from bandgap.inference.network.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork
from bandgap.inference.stochastic_gradient.network_frames import (
    LayerFrame,
    layer_frame,
    plain_frame,
    squares_in,
)


@dataclass(frozen=True, eq=False)
class NetworkTarget:
    """A whitened network with isotropic layers, the prior of its scales, the layers' frames, units (width,) of a state.

    The frames are shared by all chains.
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
        """First and end of every layer's zeta in a position."""
        found, first = [], 0
        for shape in self.shapes:
            found.append((first, first + prod(shape)))
            first = found[-1][1]
        return found

    @property
    def size(self) -> int:
        """Length of a position."""
        return self.spans[-1][1] + int(self.units.shape[0])

    @property
    def free_share(self) -> Tensor:
        """Share (dim,) of every entry's width that its prior alone leaves, 0 for the scales."""
        weights = torch.cat([frame.free_share.flatten() for frame in self.frames])
        return torch.nn.functional.pad(weights, (0, int(self.units.shape[0])))

    def layers(self, position: Tensor) -> Layers:
        """Return z of every layer (chain, out, in) of positions (chain, dim)."""
        return self._place(position).z

    def state(self, position: Tensor) -> Tensor:
        """Return the scales' state (..., width) of positions (..., dim), in float64."""
        return position[..., self.spans[-1][1] :].double() * self.units

    def position(self, z: Layers, state: Tensor) -> Tensor:
        """Return the positions (chain, dim) of z (chain, out, in) of every layer and states (chain, width)."""
        relative = self._relative(self.prior.scales(state))
        turned = [
            frame.turned(q) / frame.factors(relative[:, i])
            for i, (frame, q) in enumerate(zip(self.frames, z, strict=True))
        ]
        return self._joined(turned, state / self.units)

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return the gradient (chain, dim) of the prior of zeta and of the scales, over all rows."""
        at = self._place(position)
        by_zeta = [-f * q for f, q in zip(at.factors, at.turned, strict=True)]
        grown = [
            0.5 * ((1.0 - f * f) * (q * q - 1.0))
            for f, q in zip(at.factors, at.turned, strict=True)
        ]
        by_square = torch.stack([part.flatten(1).double().sum(1) for part in grown], 1)
        by_scales = ScaleGradient(by_square, -2.0 * by_square[:, :-1].sum(1))
        by_state = self.prior.log_density_and_gradient(at.state.cpu())[1].to(by_square)
        return self._joined(
            by_zeta, (by_state + self.prior.by_state(at.state, by_scales)) * self.units
        )

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the sum of the gradients of rows (chain, n) of the log likelihood, (chain, dim)."""
        at = self._place(position)
        passed = self._forward(at.z, at.scales, rows)
        residual = self.net.y[rows].to(position) - passed.output
        variance = (at.scales.sigma**2).to(position)[:, None]
        by_z = self._backward(at.z, at.scales, passed, (residual / variance).unsqueeze(-1))
        by_turned = [frame.turned(g) for frame, g in zip(self.frames, by_z, strict=True)]
        by_zeta = [f * g for f, g in zip(at.factors, by_turned, strict=True)]
        along = _dots(by_turned, at.turned)  # of s_l at fixed z
        held = _dots(
            [f * g for f, g in zip(at.factors, by_zeta, strict=True)], at.turned
        )  # at fixed zeta
        by_sigma = (
            (residual.double() ** 2).sum(1) / at.scales.sigma**2 - rows.shape[1] + along[:, -1]
        )
        by_scales = ScaleGradient(0.5 * held, by_sigma - (held - along)[:, :-1].sum(1))
        return self._joined(by_zeta, self.prior.by_state(at.state, by_scales) * self.units)

    def values(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return f (chain, n) at the same rows (n,) for every chain."""
        at = self._place(position)
        return self._forward(at.z, at.scales, rows.expand(position.shape[0], -1)).output

    def reframed(
        self, position: Tensor, rows: Tensor, *, found_at: Tensor | None = None, turn: bool = True
    ) -> "tuple[NetworkTarget, Tensor]":
        """Return the target in frames and units found from rows (n,), and positions (chain, dim) there.

        They are found at these positions, or at others `found_at` (m, dim). Without `turn` every entry of zeta stays
        one of z, only its width is found.
        """
        at = self._place(position if found_at is None else found_at)
        chains = at.state.shape[0]
        share = self.n_rows / (rows.shape[0] * chains)
        passed = self._forward(at.z, at.scales, rows.expand(chains, -1))
        log_scale, frames, by_parts = self._relative(at.scales), [], []
        for layer, (g, h) in enumerate(
            zip(self._slopes(at.z, at.scales, passed), passed.inputs, strict=True)
        ):
            by_z = share**0.5 * torch.exp(log_scale[:, layer, None, None]) * g.double()
            wide = h.double().expand(chains, -1, -1)
            frame = layer_frame(
                by_z.flatten(0, 1), wide.flatten(0, 1).to(position), log_scale=float(log_scale[:, layer].mean()),
                turn_left=turn, turn_right=turn and layer > 0,
            )  # fmt: skip
            move = frame.factors(log_scale[:, layer]).square() * frame.turned(at.z[layer])
            by_parts.append(
                0.25 * (by_z * (wide @ frame.back(move).double().mT)).sum(-1).square().sum()
            )
            frames.append(frame)
        parts = torch.stack(by_parts)
        by_sigma = 2.0 * self.n_rows + 4.0 * parts.sum(0, keepdim=True)
        units = torch.rsqrt(torch.cat([by_sigma, parts]) + 1.0 / self.prior.units.to(parts) ** 2)
        target = replace(self, frames=tuple(frames), units=units)
        here = at if found_at is None else self._place(position)
        return target, target.position(here.z, here.state)

    def batch_variance(self, position: Tensor, rows: Tensor, *, of: int, drawn: int) -> Tensor:
        """Return the variance (dim,) of a batch's gradient about that of all rows, mean over positions; 0 for scales.

        Where `drawn` rows are n of N = `of`, it is N (N / n - 1) times the mean square of a row's gradient, here of
        rows (m,) of these.
        """
        at, chains = self._place(position), position.shape[0]
        passed = self._forward(at.z, at.scales, rows.expand(chains, -1))
        residual = (self.net.y[rows].to(position) - passed.output).double() / at.scales.sigma[
            :, None
        ] ** 2
        level = of * (of / drawn - 1.0) / (rows.shape[0] * chains)
        found = []
        for layer, (g, h) in enumerate(
            zip(self._slopes(at.z, at.scales, passed), passed.inputs, strict=True)
        ):
            frame = self.frames[layer]
            by_weight = (at.scales.s[:, layer, None] * residual).unsqueeze(-1) * g.double()
            wide = h.double().expand(chains, -1, -1).flatten(0, 1)
            squares = level * squares_in(frame.left, frame.right, by_weight.flatten(0, 1), wide)
            factors = frame.factors(self._relative(at.scales)[:, layer]).double().square().mean(0)
            found.append((factors * squares).flatten())
        return torch.nn.functional.pad(torch.cat(found), (0, int(self.units.shape[0]))).to(position)

    def row_curvature(self, position: Tensor, *, block: int = 2048) -> Tensor:
        """Return by how much every row bends minus its log likelihood along its own gradient, (chain, N).

        That is |df / dzeta|^2 / sigma^2, the one eigenvalue of the row's Gauss-Newton matrix by the weights.
        """
        at, found = self._place(position), []
        relative = self._relative(at.scales)
        for rows in torch.split(torch.arange(self.n_rows, device=position.device), block):
            passed = self._forward(at.z, at.scales, rows.expand(position.shape[0], -1))
            total = torch.zeros_like(passed.output)
            for layer, (g, h) in enumerate(
                zip(self._slopes(at.z, at.scales, passed), passed.inputs, strict=True)
            ):
                frame, grown = (
                    self.frames[layer],
                    torch.exp(relative[:, layer]).to(g)[:, None, None],
                )
                by_output = g if frame.left is None else g @ frame.left
                by_input = h if frame.right is None else h @ frame.right
                squares = (grown * frame.factors(relative[:, layer])).square()
                total += ((by_output.square() @ squares) * by_input.square()).sum(-1)
            found.append(total)
        return torch.cat(found, 1)

    def _relative(self, scales: Scales) -> Tensor:
        return torch.log(scales.s / scales.sigma[:, None])

    def _joined(self, weights: Layers, state: Tensor) -> Tensor:
        return torch.cat([*[layer.flatten(1) for layer in weights], state.to(weights[0])], 1)

    def _place(self, position: Tensor) -> "Placed":
        state = self.state(position)
        scales = self.prior.scales(state)
        relative, turned, factors, z = self._relative(scales), [], [], []
        for layer, ((first, end), shape, frame) in enumerate(
            zip(self.spans, self.shapes, self.frames, strict=True)
        ):
            factors.append(frame.factors(relative[:, layer]))
            turned.append(factors[-1] * position[:, first:end].reshape(-1, *shape))
            z.append(frame.back(turned[-1]))
        return Placed(state, scales, factors, turned, z)

    def _scale(self, scales: Scales, layer: int) -> Tensor:
        return scales.s[:, layer, None, None]

    def _forward(self, z: Layers, scales: Scales, rows: Tensor) -> "Passed":
        net, dtype = self.net, z[0].dtype
        x = net.inputs[rows]
        pre = net.base[rows] + self._scale(scales, 0).to(dtype) * (x @ z[0].mT)
        inputs = [x]
        for layer in range(1, len(z)):
            h = torch.nn.functional.pad(
                torch.relu(pre), (0, 1), value=net.constant if layer == len(z) - 1 else 1.0
            )
            inputs.append(h)
            pre = h @ (net.theta_hat[layer] + self._scale(scales, layer).to(dtype) * z[layer]).mT
        return Passed(inputs, pre.squeeze(-1))

    def _slopes(
        self, z: Layers, scales: Scales, passed: "Passed", start: Tensor | None = None
    ) -> Layers:
        """Return the gradient of f by every pre-activation (chain, n, out), times `start` (chain, n, 1)."""
        g = torch.ones_like(passed.output).unsqueeze(-1) if start is None else start
        found = [g]
        for layer in range(len(z) - 1, 0, -1):
            weight = self.net.theta_hat[layer] + self._scale(scales, layer).to(g) * z[layer]
            g = (g @ weight[..., :-1]) * (passed.inputs[layer][..., :-1] > 0)
            found.insert(0, g)
        return found

    def _backward(self, z: Layers, scales: Scales, passed: "Passed", by_output: Tensor) -> Layers:
        slopes = self._slopes(z, scales, passed, by_output)
        pairs = enumerate(zip(slopes, passed.inputs, strict=True))
        return [self._scale(scales, layer).to(g) * (g.mT @ h) for layer, (g, h) in pairs]


@dataclass(frozen=True, eq=False)
class Placed:
    """What positions mean: states and scales, the factors z / zeta, f zeta, and z turned back, each (chain, ...)."""

    state: Tensor
    scales: Scales
    factors: Layers
    turned: Layers
    z: Layers


@dataclass(frozen=True, eq=False)
class Passed:
    """The input (chain, n, in) of every layer, and f (chain, n)."""

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
