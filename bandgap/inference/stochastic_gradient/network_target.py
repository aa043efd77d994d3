r"""The joint posterior of a network's weights and scales as a sum over rows, for samplers that see mini-batches.

Non-centred: theta_l = theta_hat_l + s_l z_l for every layer, the output layer included, z ~ N(0, I), scales from a
`ScalePrior`. A position is (z_1, ..., z_L, state of the scales), flat, each entry divided by its unit: a rough
posterior standard deviation from the diagonal of the Gauss-Newton matrix, so that one step suits all of them. What is
stiff beyond that, directions of many entries together, is shrunk by a fixed `Metric`. With r = y - f and s_L = sigma
sqrt(rho),

    d log p / d z_l       = s_l sum_i (r_i / sigma^2) df_i / dtheta_l - z_l,
    d log p / d log sigma = sum_i (r_i^2 / sigma^2 - 1)   at fixed s_l,

plus what the prior's own coordinates add. The density of the scales is no sum over rows and enters whole.
"""

from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from bandgap.inference.network.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.network.whitened_network import Layers, WhitenedNetwork
from bandgap.inference.stochastic_gradient.mixture_metric import Metric, identity_metric


@dataclass(frozen=True, eq=False)
class NetworkTarget:
    """A whitened network with isotropic layers, the prior of its scales, units (dim,) and metric of a position.

    The metric's root must be symmetric, as that of `stiff_metric` is.
    """

    net: WhitenedNetwork
    prior: ScalePrior
    units: Tensor
    metric: Metric

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
        """First and end of every layer's z in a position."""
        found, first = [], 0
        for shape in self.shapes:
            found.append((first, first + prod(shape)))
            first = found[-1][1]
        return found

    def layers(self, position: Tensor) -> Layers:
        """Return z of every layer (..., out, in) of positions (..., dim)."""
        whole = self._plain(position)
        pairs = zip(self.spans, self.shapes, strict=True)
        return [whole[..., first:end].reshape(*position.shape[:-1], *shape) for (first, end), shape in pairs]

    def state(self, position: Tensor) -> Tensor:
        """Return the scales' state (..., width) of positions, in float64."""
        first = self.spans[-1][1]
        return self._plain(position)[..., first:].double()

    def position(self, z: Layers, state: Tensor) -> Tensor:
        """Return the positions (chain, dim) of z (chain, out, in) of every layer and states (chain, width)."""
        whole = torch.cat([*[layer.flatten(1) for layer in z], state.to(z[0])], 1)
        return self.metric.solve_root(whole / self.units)

    def _plain(self, position: Tensor) -> Tensor:
        return self.metric.root_times(position) * self.units

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return -z, and the gradient of the scales' own density over all rows, in the units of a position."""
        first, state = self.spans[-1][1], self.state(position)
        by_state = self.prior.log_density_and_gradient(state.cpu())[1].to(position)
        whole = torch.cat([-self._plain(position)[:, :first], by_state], 1)
        return self.metric.root_times(self.units * whole)

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the sum of the gradients of rows (chain, n) of the log likelihood, (chain, dim)."""
        z, state = self.layers(position), self.state(position)
        scales = self.prior.scales(state)
        passed = self._forward(z, scales, rows)
        residual = self.net.y[rows].to(position) - passed.output
        variance = (scales.sigma**2).to(position)[:, None]
        by_z = self._backward(z, scales, passed, (residual / variance).unsqueeze(-1))
        along = torch.stack([(q * g).flatten(1).sum(1) for q, g in zip(z, by_z, strict=True)], 1).double()
        by_sigma = (residual.double() ** 2).sum(1) / scales.sigma**2 - rows.shape[1] + along[:, -1]
        by_state = self.prior.by_state(state, ScaleGradient(0.5 * along, by_sigma)).to(position)
        whole = torch.cat([*[g.flatten(1) for g in by_z], by_state], 1)
        return self.metric.root_times(self.units * whole)

    def values(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return f (chain, n) at the same rows (n,) for every chain."""
        scales = self.prior.scales(self.state(position))
        return self._forward(self.layers(position), scales, rows.expand(position.shape[0], -1)).output

    def in_own_units(self, position: Tensor, rows: Tensor) -> "NetworkTarget":
        """Return the target with units from rows (n,) at a position (1, dim), by the diagonal of Gauss-Newton."""
        z, state = self.layers(position), self.state(position)
        scales, share = self.prior.scales(state), self.n_rows / rows.shape[0]
        passed = self._forward(z, scales, rows[None])
        curvatures, of_scales = [], []
        weight = share / scales.sigma.to(position) ** 2
        for layer, (h, g) in enumerate(zip(passed.inputs, self._slopes(z, scales, passed), strict=True)):
            s = self._scale(scales, layer).to(position)
            curvatures.append(1.0 + weight[0] * s[0] ** 2 * (g[0].square().T @ h[0].square()).flatten())
            moved = (g * (h @ (s * z[layer]).mT)).sum(-1)  # (1, n), of f along the layer's own move
            of_scales.append(0.25 * weight[0] * moved.square().sum())
        by_parts = torch.stack(of_scales).flatten()
        by_sigma = 2.0 * self.n_rows + 4.0 * by_parts.sum(0, keepdim=True)
        curvatures.append(torch.cat([by_sigma, by_parts]) + 1.0 / self.prior.units.to(position) ** 2)
        units = torch.rsqrt(torch.cat([c.flatten() for c in curvatures]))
        return replace(self, units=units, metric=identity_metric(units, scale=1.0))

    def _scale(self, scales: Scales, layer: int) -> Tensor:
        return scales.s[:, layer, None, None]

    def _forward(self, z: Layers, scales: Scales, rows: Tensor) -> "Passed":
        net, dtype = self.net, z[0].dtype
        x = net.inputs[rows]
        pre = net.base[rows] + self._scale(scales, 0).to(dtype) * (x @ z[0].mT)
        inputs = [x]
        for layer in range(1, len(z)):
            h = torch.nn.functional.pad(torch.relu(pre), (0, 1), value=net.constant if layer == len(z) - 1 else 1.0)
            inputs.append(h)
            pre = h @ (net.theta_hat[layer] + self._scale(scales, layer).to(dtype) * z[layer]).mT
        return Passed(inputs, pre.squeeze(-1))

    def _slopes(self, z: Layers, scales: Scales, passed: "Passed", start: Tensor | None = None) -> Layers:
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
class Passed:
    """The input (chain, n, in) of every layer, and f (chain, n)."""

    inputs: Layers
    output: Tensor


def network_target(net: WhitenedNetwork, prior: ScalePrior) -> NetworkTarget:
    """Return the target in units of 1."""
    sizes = [prod(shape) for shape in net.shapes] + [net.theta_hat[-1].numel(), int(prior.units.shape[0])]
    units = net.inputs.new_ones(sum(sizes))
    return NetworkTarget(net, prior, units, identity_metric(units, scale=1.0))
