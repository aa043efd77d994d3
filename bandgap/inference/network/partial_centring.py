r"""Coordinates for the joint paths in which weights and scales are about independent, each of unit width.

What the data determine about the weights does not change when the layer's scale s does, so that the whitened z = (theta
- theta_hat) / s shrinks as s grows; what they do not determine keeps its prior, and z stays. A direction of which the
data hold lam times what its prior does (eigenvalue of the Fisher information in units of z) at the scale s0 has, at
other scales, the posterior variance f^2 of a Gaussian model,

    z = f(s) zeta,   f(s) = (1 + lam (s / s0)^2)^(-1/2),   d log f / d log s = f^2 - 1

so that all of zeta has about unit variance, given the scales too: non-centred where s is small, centred where it is
large (partially non-centred: Papaspiliopoulos, Roberts and Skoeld, 2007). The Jacobian is the product of all f. The
information, s0 and the directions come from warm-up; they change the speed alone, not the posterior.

zeta is in the directions in which the Fisher information of a layer is a Kronecker product (Martens and Grosse, 2015),
of the gradients by its outputs and of its inputs: turned, z is still normal. How much the data hold in each of them is
not taken from that product, which spreads what n rows say over too many directions (the ten leading ones of 500
crystals then had the variance 5.8 where 1 is meant, the next forty 3.1), but from the posterior variance v of the model
linearised at visited states, lam = 1 / v - 1; with J (n, weights) the gradients of f in units of the noise,

    v = diag (I + J'J)^(-1) = 1 - diag J' (I + JJ')^(-1) J,   JJ' = sum over layers of (G G') * (H H').

All of zeta then turns about once in 2 pi of a path, and a quarter of a turn makes it new.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bandgap.inference.network.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.network.whitened_network import (
    Layers,
    WhitenedNetwork,
    hidden_features,
    integrate_output,
)
from bandgap.inference.soft_rectifier import through_relu

DIAGONAL = 1e-4  # share of a matrix off its diagonal below which it is one: the row space's inputs, in float32
MAX_ROWS = 1000  # of which the linearised model is made; more stand for all
LINEARISED = 2  # of the last visits, at which it is
SMALLEST = 1e-9  # posterior variance in units of the prior's


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of one layer: `left` (out, out) and `right` (in, in) are orthonormal; None is the identity.

    `information` (out, in) is lam, one entry for every pair of their columns, at the scale exp(`log_scale`). In a
    first layer it may be of the leading inputs alone.
    """

    left: Tensor
    right: Tensor | None
    information: Tensor
    log_scale: float

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the fields by name."""
        arrays = {"left": self.left, "information": self.information}
        arrays["log_scale"] = torch.tensor(self.log_scale, dtype=torch.float64)
        return arrays if self.right is None else arrays | {"right": self.right}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Tensor]) -> "Frame":
        """Build the frame from `to_arrays`."""
        log_scale = float(arrays["log_scale"])
        return Frame(arrays["left"], arrays.get("right"), arrays["information"], log_scale)

    def grown(self, s: float) -> float:
        """Return what the information at the scale `s` of one chain is of that at the frame's."""
        return math.exp(2.0 * (math.log(s) - self.log_scale))

    def turned(self, q: Tensor) -> Tensor:
        """Return q (chain, out, in) in the directions of the columns."""
        q = self.left.T @ q
        return q if self.right is None else q @ self.right

    def back(self, q: Tensor) -> Tensor:
        """Undo `turned`."""
        q = self.left @ q
        return q if self.right is None else q @ self.right.T

    def factors(self, log_s: Tensor) -> Tensor:
        """Return f = z / zeta in every direction, (chain, out, in), for log s (chain,)."""
        grown = torch.exp(2.0 * (log_s - self.log_scale)).to(self.information.dtype)
        return (self.information * grown[:, None, None]).add_(1.0).rsqrt_()


Frames = Sequence[Frame]
Pairs = list[tuple[Tensor, Tensor]]  # of `gradient_pairs`


@dataclass(frozen=True, eq=False)
class Place:
    """A point zeta with the scales it is at: z, its layers turned, and the factors z / zeta."""

    zeta: Layers
    z: Layers
    turned: Layers
    factors: Layers

    def force(
        self, frames: Frames, by_z: Layers, by_scales: ScaleGradient
    ) -> tuple[Layers, ScaleGradient]:
        """Return the gradients by zeta and by the scales given zeta, of the density of (zeta, scales).

        That density is without its factor exp(-|zeta|^2 / 2); `by_z` and `by_scales` are gradients of the density of
        (z, scales) without exp(-|z|^2 / 2).
        """
        by_zeta: Layers = []
        by_log_square = by_scales.by_log_square.clone()
        for i, frame in enumerate(frames):
            y = frame.turned(by_z[i]).sub_(self.turned[i])
            share = 1.0 - self.factors[i] ** 2
            pull = torch.linalg.vecdot((self.turned[i] * share).flatten(1), y.flatten(1)).double()
            by_log_square[:, i] -= 0.5 * (pull + share.double().sum((1, 2)))
            by_zeta.append(y.mul_(self.factors[i]).add_(self.zeta[i]))
        return by_zeta, ScaleGradient(by_log_square, by_scales.by_log_sigma)

    def added(self) -> Tensor:
        """Return the log density of (zeta, scales) less that of (z, scales), both as in `force`, (chain,)."""
        volume = torch.stack([torch.log(f.double()).sum((1, 2)) for f in self.factors]).sum(0)
        return 0.5 * (square_norm(self.zeta) - square_norm(self.turned)) + volume


def place(frames: Frames, zeta: Layers, scales: Scales) -> Place:
    """Return where zeta, a list of (chain, out, in), is at these scales."""
    log_s = torch.log(scales.s)
    factors = [frame.factors(log_s[:, i]) for i, frame in enumerate(frames)]
    turned = [q * f for q, f in zip(zeta, factors, strict=True)]
    z = [frame.back(q) for frame, q in zip(frames, turned, strict=True)]
    return Place(zeta, z, turned, factors)


def enter(frames: Frames, z: Layers, scales: Scales) -> Layers:
    """Return zeta of z at these scales."""
    log_s = torch.log(scales.s)
    return [
        f.turned(q) / f.factors(log_s[:, i]) for i, (f, q) in enumerate(zip(frames, z, strict=True))
    ]


def square_norm(z: Layers) -> Tensor:
    """Return |z|^2 of every chain, (chain,), in float64."""
    return torch.stack(
        [torch.linalg.vector_norm(q, dim=(1, 2), dtype=torch.float64) ** 2 for q in z]
    ).sum(0)


def find_frames(
    net: WhitenedNetwork,
    prior: ScalePrior,
    visited: Sequence[tuple[Layers, Tensor]],
    *,
    leading: int | None = None,
) -> list[Frame]:
    """Return the coordinates of every sampled layer from states (z, scales) that the chains were in, the last one last.

    Those of the first layer are of its first `leading` inputs, which must be uncorrelated where that is not all.
    """
    pairs = [_pairs(net, prior, z, state, leading) for z, state in visited]
    log_s = torch.cat([torch.log(prior.scales(state).s) for _, state in visited]).mean(0)
    states = sum(state.shape[0] for _, state in visited)
    frames = []
    for layer in range(len(net.shapes)):
        outputs = torch.stack([(g.T @ g).double() for g, _ in (p[layer] for p in pairs)]).sum(0) / (
            states * net.n_rows
        )
        inputs = (
            torch.stack([(h.T @ h).double() for _, h in (p[layer] for p in pairs)]).sum(0) / states
        )
        frames.append(_frame(outputs, inputs, float(log_s[layer]), net.inputs.dtype))
    return _informed(
        frames, prior, list(zip(pairs, (state for _, state in visited), strict=True))[-LINEARISED:]
    )


def gradient_pairs(net: WhitenedNetwork, z: Layers, scales: Scales) -> Pairs:
    """Return the factors of the gradients of f at the training inputs by the whitened weights of every sampled layer.

    They are g (chain n, out) and h (chain n, in): d f / d z_l = sigma g h' for each row.
    """
    dtype = z[0].dtype
    hidden = hidden_features(net, z, scales)
    output = integrate_output(net, hidden, scales)
    in_noise = (scales.s / scales.sigma[:, None]).to(dtype)[:, :, None, None]
    s = scales.s.to(dtype)[:, :, None, None]
    weights = output.mean[:, None, :-1].to(dtype).expand(-1, net.n_rows, -1)
    g = through_relu(weights, hidden.features)
    pairs: Pairs = []
    for layer in range(net.n_layers - 2, -1, -1):
        h = hidden.inputs[layer].expand(g.shape[0], -1, -1)
        pairs.insert(0, ((in_noise[:, layer] * g).flatten(0, 1), h.flatten(0, 1)))
        if layer:
            weight = net.weights(layer, s[:, layer], z[layer])
            g = through_relu(g @ weight[:, :, :-1], hidden.inputs[layer])
    return pairs


def _pairs(
    net: WhitenedNetwork, prior: ScalePrior, z: Layers, state: Tensor, leading: int | None
) -> Pairs:
    (g, h), *others = gradient_pairs(net, z, prior.scales(state))
    return [(g, h[:, :leading]), *others]


def _frame(outputs: Tensor, inputs: Tensor, log_scale: float, dtype: torch.dtype) -> Frame:
    strength, left = torch.linalg.eigh(outputs)
    reach, right = inputs.diagonal(), None
    if bool((inputs - torch.diag(reach)).norm() > DIAGONAL * inputs.norm()):
        reach, right = torch.linalg.eigh(inputs)
    information = torch.outer(strength.clamp(min=0.0), reach.clamp(min=0.0))
    right = None if right is None else right.to(dtype).contiguous()
    return Frame(left.to(dtype).contiguous(), right, information.to(dtype), log_scale)


def _informed(
    frames: list[Frame], prior: ScalePrior, visits: Sequence[tuple[Pairs, Tensor]]
) -> list[Frame]:
    """Return frames with the information of models linearised at visits, pairs of gradients and states."""
    found = []
    for pairs, state in visits:
        log_s = torch.log(prior.scales(state).s)
        for chain in range(len(state)):
            turned = [
                _turned(
                    frame,
                    pair,
                    chain,
                    len(state),
                    math.exp(frame.log_scale - float(log_s[chain, i])),
                )
                for i, (frame, pair) in enumerate(zip(frames, pairs, strict=True))
            ]
            found.append(linearised_variances(turned))
    means = [torch.stack(variances).mean(0) for variances in zip(*found, strict=True)]
    return [
        replace(frame, information=(1.0 / mean - 1.0).clamp(min=0.0).to(frame.information.dtype))
        for frame, mean in zip(frames, means, strict=True)
    ]


def _turned(
    frame: Frame, pair: tuple[Tensor, Tensor], chain: int, chains: int, grown: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients of one chain in a frame's directions at its scale; of many rows some that stand for all."""
    g, h = (part.double().reshape(chains, -1, part.shape[1])[chain] for part in pair)
    every = -(-len(g) // MAX_ROWS)
    g, h = g[::every], h[::every]
    g = g @ frame.left.double() * (grown * math.sqrt(len(pair[0]) / (chains * len(g))))
    return g, h if frame.right is None else h @ frame.right.double()


def linearised_variances(pairs: Sequence[tuple[Tensor, Tensor]]) -> Layers:
    """Return the posterior variances of every layer's whitened weights, each (out, in), in a linear model.

    `pairs` are those of the layers: g (n, out) and h (n, in), the gradients of f by z in units of the noise being g h'.
    """
    together = torch.stack([(g @ g.T) * (h @ h.T) for g, h in pairs]).sum(0)
    together.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(together)
    return [1.0 - _squares(factor, g, h) for g, h in pairs]


def _squares(factor: Tensor, g: Tensor, h: Tensor) -> Tensor:
    """Return the diagonal of J' (C C')^(-1) J for the columns g_o h_i of J, (out, in), as the squares of C^(-1) J."""
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=False)
    return torch.stack([((inverse * column) @ h).square_().sum(0) for column in g.T]).clamp(
        max=1.0 - SMALLEST
    )
