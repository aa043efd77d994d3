r"""Coordinates for the joint paths in which weights and scales are about independent, each of unit width.

What the data determine about the weights does not change when the layer's scale s does, so that the whitened z = (theta
- theta_hat) / s shrinks as s grows; what they do not determine keeps its prior, and z stays. A direction of which the
data hold lam times what its prior does (eigenvalue of the Fisher information in units of z) at the scale s0 has, at
other scales, the posterior variance f^2 of a Gaussian model,

    z = f(s) zeta,   f(s) = (1 + lam (s / s0)^2)^(-1/2),   d log f / d log s = f^2 - 1

so that all of zeta has about unit variance, given the scales too: non-centred where s is small, centred where it is
large (partially non-centred: Papaspiliopoulos, Roberts and Skoeld, 2007). The Jacobian is the product of all f. The
information, s0 and the directions come from warm-up; they change the speed alone, not the posterior. The Fisher
information of a layer is taken as a Kronecker product (Martens and Grosse, 2015) of the gradients by its outputs and of
its inputs, and zeta is in the directions of both: turned, z is still normal.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bandgap.inference.gradient_pairs import gradient_pairs
from bandgap.inference.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.whitened_network import Layers, WhitenedNetwork

DIAGONAL = 1e-4  # share of a matrix off its diagonal below which it is one: the row space's inputs, in float32


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of one layer: `left` (out, out) and `right` (in, in) are orthonormal; None is the identity.

    `information` (out, in) is lam, one entry for every pair of their columns, at the scale exp(`log_scale`).
    """

    left: Tensor
    right: Tensor | None
    information: Tensor
    log_scale: float

    def leading_inputs(self, k: int) -> "Frame":
        """Return the coordinates of the weights of the first `k` inputs; the inputs must be uncorrelated."""
        if k == self.information.shape[1]:
            return self
        assert self.right is None, "only inputs in the row space are split"
        return replace(self, information=self.information[:, :k].contiguous())

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


@dataclass(frozen=True, eq=False)
class Place:
    """A point zeta with the scales it is at: z, its layers turned, and the factors z / zeta."""

    zeta: Layers
    z: Layers
    turned: Layers
    factors: Layers

    def force(self, frames: Frames, by_z: Layers, by_scales: ScaleGradient) -> tuple[Layers, ScaleGradient]:
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
    return [f.turned(q) / f.factors(log_s[:, i]) for i, (f, q) in enumerate(zip(frames, z, strict=True))]


def square_norm(z: Layers) -> Tensor:
    """Return |z|^2 of every chain, (chain,), in float64."""
    return torch.stack([torch.linalg.vector_norm(q, dim=(1, 2), dtype=torch.float64) ** 2 for q in z]).sum(0)


def find_frames(net: WhitenedNetwork, prior: ScalePrior, visited: Sequence[tuple[Layers, Tensor]]) -> list[Frame]:
    """Return the coordinates of every sampled layer from states (z, scales) that the chains were in."""
    pairs = [gradient_pairs(net, z, prior.scales(state)) for z, state in visited]
    log_s = torch.cat([torch.log(prior.scales(state).s) for _, state in visited]).mean(0)
    states = sum(state.shape[0] for _, state in visited)
    frames = []
    for layer in range(len(net.shapes)):
        outputs = torch.stack([(g.T @ g).double() for g, _ in (p[layer] for p in pairs)]).sum(0) / (states * net.n_rows)
        inputs = torch.stack([(h.T @ h).double() for _, h in (p[layer] for p in pairs)]).sum(0) / states
        frames.append(_frame(outputs, inputs, float(log_s[layer]), net.inputs.dtype))
    return frames


def _frame(outputs: Tensor, inputs: Tensor, log_scale: float, dtype: torch.dtype) -> Frame:
    strength, left = torch.linalg.eigh(outputs)
    reach, right = inputs.diagonal(), None
    if bool((inputs - torch.diag(reach)).norm() > DIAGONAL * inputs.norm()):
        reach, right = torch.linalg.eigh(inputs)
    information = torch.outer(strength.clamp(min=0.0), reach.clamp(min=0.0))
    right = None if right is None else right.to(dtype).contiguous()
    return Frame(left.to(dtype).contiguous(), right, information.to(dtype), log_scale)
