r"""Coordinates for the joint paths in which weights and scales are about independent, each of unit width.

What the data determine about the weights does not change when the layer's scale s does, so that the whitened z = (theta
- theta_hat) / s shrinks as s grows; what they do not determine keeps its prior, and z stays. A direction of which the
data hold lam times what its prior does (eigenvalue of the Fisher information in units of z) is the share gamma = lam /
(1 + lam) of the first and has the variance 1 / (1 + lam). With

    z = T (s / s0)^-gamma zeta,   T = (1 + lam)^(-1/2)

all of zeta has about unit variance, given the scales too (partially non-centred: Papaspiliopoulos, Roberts and Skoeld,
2007). The Jacobian is (s / s0)^-sum(gamma). T, gamma, s0 and the directions come from warm-up; they change the speed
alone, not the posterior. The Fisher information of a layer is taken as a Kronecker product (Martens and Grosse, 2015)
of the gradients by its outputs and of its inputs: the leading directions of the first are told apart, the rest share
their mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bandgap.inference.scales import ScaleGradient, ScalePrior, Scales
from bandgap.inference.whitened_network import Layers, WhitenedNetwork, gradient_pairs

LEADING = 8  # directions of a layer's outputs that are told apart
DIAGONAL = 1e-4  # share of a matrix off its diagonal below which it is one: the row space's inputs, in float32


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of one layer: `left` (out, k) and `right` (in, in) have orthonormal columns; None is the identity.

    Rows of `narrow` (T), `share` (gamma), (k + 1, in): one for every column of `left`, the last for all other
    directions of the outputs. `log_scale` is log s0.
    """

    left: Tensor
    right: Tensor | None
    narrow: Tensor
    share: Tensor
    log_scale: float

    @cached_property
    def total_share(self) -> float:
        """Sum of gamma over all directions."""
        out, k = self.left.shape
        each = self.share.double().sum(1)
        return float(each[:-1].sum() + (out - k) * each[-1])

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the fields by name."""
        arrays = {"left": self.left, "narrow": self.narrow, "share": self.share}
        arrays["log_scale"] = torch.tensor(self.log_scale, dtype=torch.float64)
        return arrays if self.right is None else arrays | {"right": self.right}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Tensor]) -> "Frame":
        """Build the frame from `to_arrays`."""
        log_scale = float(arrays["log_scale"])
        return Frame(arrays["left"], arrays.get("right"), arrays["narrow"], arrays["share"], log_scale)

    def turned(self, q: Tensor) -> Tensor:
        """Return q (chain, out, in) in the directions of the inputs."""
        return q if self.right is None else q @ self.right

    def back(self, q: Tensor) -> Tensor:
        """Undo `turned`."""
        return q if self.right is None else q @ self.right.T

    def factors(self, log_s: Tensor) -> Tensor:
        """Return z / zeta in every direction, (chain, k + 1, in), for log s (chain,)."""
        away = (log_s - self.log_scale).to(self.narrow.dtype)
        return self.narrow * torch.exp(-self.share * away[:, None, None])

    def leading(self, q: Tensor) -> Tensor:
        """Return turned q (chain, out, in) along the columns of `left`, (chain, k, in)."""
        return self.left.T @ q

    def scaled(self, q: Tensor, factors: Tensor, *, leading: Tensor | None = None) -> Tensor:
        """Return turned q (chain, out, in) times the factors, direction by direction.

        `leading` is `self.leading(q)` where it is known already.
        """
        rest = factors[:, -1:]
        along = (self.leading(q) if leading is None else leading) * (factors[:, :-1] - rest)
        return torch.baddbmm(q * rest, self.left.expand(q.shape[0], -1, -1), along)

    def pull(self, z: Tensor, y: Tensor, *, leading_z: Tensor, leading_y: Tensor) -> Tensor:
        """Return the sum of gamma z y over all directions, (chain,), for turned z and y and their `leading` parts."""
        leading = leading_z * leading_y
        by_input = (z * y).sum(1) - leading.sum(1)
        return ((leading * self.share[:-1]).sum((1, 2)) + by_input @ self.share[-1]).double()


Frames = Sequence[Frame]


@dataclass(frozen=True, eq=False)
class Place:
    """A point zeta with the scales it is at: z, its layers turned, and the factors z / zeta."""

    zeta: Layers
    z: Layers
    turned: Layers
    leading: Layers  # of `turned`
    factors: Layers
    log_s: Tensor  # (chain, L)

    def force(self, frames: Frames, by_z: Layers, by_scales: ScaleGradient) -> tuple[Layers, ScaleGradient]:
        """Return the gradients by zeta and by the scales given zeta, of the density of (zeta, scales).

        That density is without its factor exp(-|zeta|^2 / 2); `by_z` and `by_scales` are gradients of the density of
        (z, scales) without exp(-|z|^2 / 2).
        """
        by_zeta: Layers = []
        by_log_square = by_scales.by_log_square.clone()
        for i, frame in enumerate(frames):
            y = frame.turned(by_z[i]) - self.turned[i]
            leading = frame.leading(y)
            pull = frame.pull(self.turned[i], y, leading_z=self.leading[i], leading_y=leading)
            by_log_square[:, i] -= 0.5 * (pull + frame.total_share)
            by_zeta.append(frame.scaled(y, self.factors[i], leading=leading).add_(self.zeta[i]))
        return by_zeta, ScaleGradient(by_log_square, by_scales.by_log_sigma)

    def added(self, frames: Frames) -> Tensor:
        """Return the log density of (zeta, scales) less that of (z, scales), both as in `force`, (chain,)."""
        shares = self.log_s.new_tensor([frame.total_share for frame in frames])
        away = self.log_s[:, : len(frames)] - self.log_s.new_tensor([frame.log_scale for frame in frames])
        return 0.5 * (square_norm(self.zeta) - square_norm(self.turned)) - away @ shares


def place(frames: Frames, zeta: Layers, scales: Scales) -> Place:
    """Return where zeta, a list of (chain, out, in), is at these scales."""
    log_s = torch.log(scales.s)
    factors = [frame.factors(log_s[:, i]) for i, frame in enumerate(frames)]
    along = [frame.leading(q) for frame, q in zip(frames, zeta, strict=True)]
    turned = [frame.scaled(q, f, leading=a) for frame, q, f, a in zip(frames, zeta, factors, along, strict=True)]
    z = [frame.back(q) for frame, q in zip(frames, turned, strict=True)]
    leading = [a * f[:, :-1] for a, f in zip(along, factors, strict=True)]
    return Place(zeta, z, turned, leading, factors, log_s)


def enter(frames: Frames, z: Layers, scales: Scales) -> Layers:
    """Return zeta of z at these scales."""
    log_s = torch.log(scales.s)
    return [f.scaled(f.turned(q), 1.0 / f.factors(log_s[:, i])) for i, (f, q) in enumerate(zip(frames, z, strict=True))]


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
    k = min(LEADING, strength.shape[0] - 1)
    leading = torch.cat([strength[-k:], strength[:-k].mean(0, keepdim=True)]).clamp(min=0.0)
    reach, right = inputs.diagonal(), None
    if bool((inputs - torch.diag(reach)).norm() > DIAGONAL * inputs.norm()):
        reach, right = torch.linalg.eigh(inputs)
    information = torch.outer(leading, reach.clamp(min=0.0))
    return Frame(
        left[:, -k:].to(dtype).contiguous(),
        None if right is None else right.to(dtype).contiguous(),
        (1.0 + information).rsqrt().to(dtype),
        (information / (1.0 + information)).to(dtype),
        log_scale,
    )
