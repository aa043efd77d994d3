r"""Partially centred coordinates: weights and scales are nearly independent and of unit width.

What the data determine about the weights does not change with the layer's scale s, so that the
whitened z = (theta - theta_hat) / s shrinks as s grows. What they do not determine keeps its prior,
and z stays. Take a direction in which the data's information is lam times that of the prior
(eigenvalue of the Fisher information in units of z) at the scale s0. At other scales it has the
posterior variance f^2 of a Gaussian model,

    z = f(s) zeta,   f(s) = (1 + lam (s / s0)^2)^(-1/2),   d log f / d log s = f^2 - 1

All of zeta then has about unit variance, also given the scales. It is non-centred where s is small
and centred where s is large (partially non-centred: Papaspiliopoulos, Roberts and Skoeld, 2007).
The Jacobian is the product of all f. The information, s0 and the directions are estimated in
warm-up. They change the speed, not the posterior.

zeta is in the directions in which the Fisher information of a layer is a Kronecker product of that
of the gradients by its outputs and that of its inputs (Martens and Grosse, 2015). Rotated, z is
still normal. The information in each direction is not taken from that product, which spreads the
information of n rows over too many directions. It is taken from the posterior variance v of the
model linearised at visited states, lam = 1 / v - 1. With the gradients J (n, weights) of f in units
of the noise,

    v = diag (I + J'J)^(-1) = 1 - diag J' (I + JJ')^(-1) J,   JJ' = sum over l of (G G') * (H H')

All of zeta then rotates about once in 2 pi of a path, and after a quarter of a turn it is nearly
independent of the start.
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

# share of a matrix off its diagonal below which it counts as diagonal, such as that of the row
# space's inputs in float32
DIAGONAL = 1e-4
MAX_ROWS = 1000  # of the linearised model; of more rows an evenly spaced subset is taken
LINEARISED = 2  # of the last visits, at which the model is linearised
SMALLEST = 1e-9  # posterior variance in units of the prior's


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of one layer.

    Parameters
    ----------
    output_directions : (out, out), orthonormal columns
    input_directions : (in, in), orthonormal columns; None is the identity
    information : (out, in), lam for every pair of their columns, at the scale exp(`log_scale`); of
        a first layer it may cover the leading inputs alone
    log_scale : log s0
    """

    output_directions: Tensor
    input_directions: Tensor | None
    information: Tensor
    log_scale: float

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the fields by name."""
        arrays = {
            "output_directions": self.output_directions,
            "information": self.information,
            "log_scale": torch.tensor(self.log_scale, dtype=torch.float64),
        }
        if self.input_directions is not None:
            arrays["input_directions"] = self.input_directions
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, Tensor]) -> "Frame":
        """Build the frame from `to_arrays`."""
        return Frame(
            arrays["output_directions"],
            arrays.get("input_directions"),
            arrays["information"],
            float(arrays["log_scale"]),
        )

    def relative_information(self, s: float) -> float:
        """Return the information at the scale `s` of one chain, relative to that at s0."""
        return math.exp(2.0 * (math.log(s) - self.log_scale))

    def rotate(self, q: Tensor) -> Tensor:
        """Return q (chain, out, in) in the directions of the columns."""
        q = self.output_directions.T @ q
        return q if self.input_directions is None else q @ self.input_directions

    def rotate_back(self, q: Tensor) -> Tensor:
        """Undo `rotate`."""
        q = self.output_directions @ q
        return q if self.input_directions is None else q @ self.input_directions.T

    def factors(self, log_s: Tensor) -> Tensor:
        """Return f = z / zeta in every direction, (chain, out, in), for log s (chain,)."""
        relative = torch.exp(2.0 * (log_s - self.log_scale)).to(self.information.dtype)
        return (self.information * relative[:, None, None]).add_(1.0).rsqrt_()


Frames = Sequence[Frame]
Pairs = list[tuple[Tensor, Tensor]]  # of `gradient_pairs`


@dataclass(frozen=True, eq=False)
class FramePoint:
    """A point zeta at some scales: its z, z rotated into the frames, and the factors z / zeta."""

    zeta: Layers
    z: Layers
    rotated: Layers
    factors: Layers

    def gradients(
        self, frames: Frames, by_z: Layers, by_scales: ScaleGradient
    ) -> tuple[Layers, ScaleGradient]:
        """Return the gradients of the density of (zeta, scales) by zeta and by the scales.

        That density is without its factor exp(-|zeta|^2 / 2). `by_z` and `by_scales` are gradients
        of the density of (z, scales) without exp(-|z|^2 / 2).
        """
        by_zeta: Layers = []
        by_log_square = by_scales.by_log_square.clone()
        for i, frame in enumerate(frames):
            y = frame.rotate(by_z[i]).sub_(self.rotated[i])
            share = 1.0 - self.factors[i] ** 2
            pull = torch.linalg.vecdot((self.rotated[i] * share).flatten(1), y.flatten(1)).double()
            by_log_square[:, i] -= 0.5 * (pull + share.double().sum((1, 2)))
            by_zeta.append(y.mul_(self.factors[i]).add_(self.zeta[i]))
        return by_zeta, ScaleGradient(by_log_square, by_scales.by_log_sigma)

    def log_density_change(self) -> Tensor:
        """Return the log density of (zeta, scales) minus that of (z, scales), (chain,).

        Both are without the factors named in `gradients`.
        """
        volume = torch.stack([torch.log(f.double()).sum((1, 2)) for f in self.factors]).sum(0)
        return 0.5 * (square_norm(self.zeta) - square_norm(self.rotated)) + volume


def from_frames(frames: Frames, zeta: Layers, scales: Scales) -> FramePoint:
    """Return the point with coordinates zeta, a list of (chain, out, in), at these scales."""
    log_s = torch.log(scales.s)
    factors = [frame.factors(log_s[:, i]) for i, frame in enumerate(frames)]
    rotated = [q * f for q, f in zip(zeta, factors, strict=True)]
    z = [frame.rotate_back(q) for frame, q in zip(frames, rotated, strict=True)]
    return FramePoint(zeta, z, rotated, factors)


def to_frames(frames: Frames, z: Layers, scales: Scales) -> Layers:
    """Return the coordinates zeta of z at these scales."""
    log_s = torch.log(scales.s)
    return [
        frame.rotate(q) / frame.factors(log_s[:, i])
        for i, (frame, q) in enumerate(zip(frames, z, strict=True))
    ]


def square_norm(z: Layers) -> Tensor:
    """Return |z|^2 of every chain, (chain,), in float64."""
    norms = [torch.linalg.vector_norm(q, dim=(1, 2), dtype=torch.float64) for q in z]
    return torch.stack([norm**2 for norm in norms]).sum(0)


def find_frames(
    net: WhitenedNetwork,
    prior: ScalePrior,
    visited: Sequence[tuple[Layers, Tensor]],
    *,
    leading: int | None = None,
) -> list[Frame]:
    """Return the coordinates of every sampled layer from visited states.

    `visited` are states (z, scales) of the chains, the latest one last. The first layer's
    coordinates cover its first `leading` inputs, which must be uncorrelated if these are not all.
    """
    pairs = [_leading_pairs(net, prior, z, state, leading) for z, state in visited]
    log_s = torch.cat([torch.log(prior.scales(state).s) for _, state in visited]).mean(0)
    n_states = sum(state.shape[0] for _, state in visited)
    frames = []
    for layer in range(len(net.shapes)):
        outputs = torch.stack([(g.T @ g).double() for g, _ in (p[layer] for p in pairs)]).sum(0)
        inputs = torch.stack([(h.T @ h).double() for _, h in (p[layer] for p in pairs)]).sum(0)
        frames.append(
            _kronecker_frame(
                outputs / (n_states * net.n_rows),
                inputs / n_states,
                float(log_s[layer]),
                net.inputs.dtype,
            )
        )
    states = [state for _, state in visited]
    visits = list(zip(pairs, states, strict=True))
    return _with_linearised_information(frames, prior, visits[-LINEARISED:])


def gradient_pairs(net: WhitenedNetwork, z: Layers, scales: Scales) -> Pairs:
    """Return the factors of the gradients of f at the training inputs by every layer's z.

    They are g (chain n, out) and h (chain n, in): d f / d z_l = sigma g h' for each row.
    """
    dtype = z[0].dtype
    hidden = hidden_features(net, z, scales)
    output = integrate_output(net, hidden, scales)
    in_noise_units = (scales.s / scales.sigma[:, None]).to(dtype)[:, :, None, None]
    s = scales.s.to(dtype)[:, :, None, None]
    weights = output.mean[:, None, :-1].to(dtype).expand(-1, net.n_rows, -1)
    g = through_relu(weights, hidden.features)
    pairs: Pairs = []
    for layer in range(net.n_layers - 2, -1, -1):
        h = hidden.inputs[layer].expand(g.shape[0], -1, -1)
        pairs.insert(0, ((in_noise_units[:, layer] * g).flatten(0, 1), h.flatten(0, 1)))
        if layer:
            weight = net.weights(layer, s[:, layer], z[layer])
            g = through_relu(g @ weight[:, :, :-1], hidden.inputs[layer])
    return pairs


def _leading_pairs(
    net: WhitenedNetwork, prior: ScalePrior, z: Layers, state: Tensor, leading: int | None
) -> Pairs:
    (g, h), *upper_pairs = gradient_pairs(net, z, prior.scales(state))
    return [(g, h[:, :leading]), *upper_pairs]


def _kronecker_frame(
    outputs: Tensor, inputs: Tensor, log_scale: float, dtype: torch.dtype
) -> Frame:
    """Return the frame of the Fisher information with these factors (out, out) and (in, in)."""
    output_values, output_directions = torch.linalg.eigh(outputs)
    input_values = inputs.diagonal()
    input_directions = None
    off_diagonal = inputs - torch.diag(input_values)
    if bool(off_diagonal.norm() > DIAGONAL * inputs.norm()):
        input_values, input_directions = torch.linalg.eigh(inputs)
        input_directions = input_directions.to(dtype).contiguous()
    information = torch.outer(output_values.clamp(min=0.0), input_values.clamp(min=0.0))
    return Frame(
        output_directions.to(dtype).contiguous(),
        input_directions,
        information.to(dtype),
        log_scale,
    )


def _with_linearised_information(
    frames: list[Frame], prior: ScalePrior, visits: Sequence[tuple[Pairs, Tensor]]
) -> list[Frame]:
    """Return frames with the information of models linearised at visits.

    A visit is the gradient pairs and the state (chain, width).
    """
    variances_by_visit = []
    for pairs, state in visits:
        log_s = torch.log(prior.scales(state).s)
        for chain in range(len(state)):
            rotated = [
                _rotated_pair(
                    frame,
                    pair,
                    chain,
                    len(state),
                    math.exp(frame.log_scale - float(log_s[chain, i])),
                )
                for i, (frame, pair) in enumerate(zip(frames, pairs, strict=True))
            ]
            variances_by_visit.append(linearised_variances(rotated))
    means = [torch.stack(layer).mean(0) for layer in zip(*variances_by_visit, strict=True)]
    return [
        replace(frame, information=(1.0 / mean - 1.0).clamp(min=0.0).to(frame.information.dtype))
        for frame, mean in zip(frames, means, strict=True)
    ]


def _rotated_pair(
    frame: Frame, pair: tuple[Tensor, Tensor], chain: int, n_chains: int, relative_scale: float
) -> tuple[Tensor, Tensor]:
    """Return the gradients of one chain in a frame's directions, at the frame's scale.

    Of more than `MAX_ROWS` rows an evenly spaced subset represents all.
    """
    g, h = (part.double().reshape(n_chains, -1, part.shape[1])[chain] for part in pair)
    stride = -(-len(g) // MAX_ROWS)
    g = g[::stride]
    h = h[::stride]
    row_weight = math.sqrt(len(pair[0]) / (n_chains * len(g)))
    g = g @ frame.output_directions.double() * (relative_scale * row_weight)
    return g, h if frame.input_directions is None else h @ frame.input_directions.double()


def linearised_variances(pairs: Sequence[tuple[Tensor, Tensor]]) -> Layers:
    """Return the posterior variances of every layer's z, each (out, in), in a linear model.

    `pairs` are g (n, out) and h (n, in) of every layer; the gradients of f by z in units of the
    noise are g h'.
    """
    gram = torch.stack([(g @ g.T) * (h @ h.T) for g, h in pairs]).sum(0)
    gram.diagonal().add_(1.0)
    factor = torch.linalg.cholesky(gram)
    return [1.0 - _explained_variance(factor, g, h) for g, h in pairs]


def _explained_variance(factor: Tensor, g: Tensor, h: Tensor) -> Tensor:
    """Return the diagonal of J' (C C')^(-1) J for the columns g_o h_i of J, (out, in).

    It is computed as the squares of C^(-1) J.
    """
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=False)
    squares = torch.stack([((inverse * column) @ h).square_().sum(0) for column in g.T])
    return squares.clamp(max=1.0 - SMALLEST)
