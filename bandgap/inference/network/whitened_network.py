r"""A network posterior in whitened coordinates, with two exact reductions.

theta_l = theta_hat_l + s_l z_l with z ~ N(0, I).

- Row space. With the first layer's input written as (x, 1) and X = U S V' for the training inputs
  (n, p + 1), the likelihood depends on z_1 only through z_1 V. Its r = rank(X) coordinates in the
  row space are sampled. The orthogonal part keeps its prior (rotated by (V, V_orthogonal), an
  isotropic Gaussian stays one) and is drawn at prediction time.
- Last layer. Given the last hidden features H (n, q), bias included, the output weights are a
  Gaussian linear model with B = I + rho H'H, rho = (s_L / sigma)^2, residual r = y - H theta_hat_L:
      log p(y | H) = -n/2 log(2 pi sigma^2) - 1/2 log|B| - (|r|^2 - rho r'H B^-1 H'r) / (2 sigma^2)
      w | y, H ~ N(mu, sigma^2 rho B^-1),   mu = theta_hat_L + rho B^-1 H'r
      d log p / dH = ((y - H mu) mu' - sigma^2 rho H B^-1) / sigma^2
  This removes the stiff part of the joint posterior, the output's offset and scale.

Layers are lists (index 0 is layer 1) of tensors (chain, out, in + 1); the last input is the bias.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from bandgap.inference.network.scales import ScaleGradient, Scales
from bandgap.inference.soft_rectifier import rectified, through_relu

Layers = list[Tensor]
# singular values below this share of the largest carry no input that float32 could tell from zero
RANK_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class WhitenedNetwork:
    """Training data of one target and the source weights, ready for sampling.

    Parameters
    ----------
    theta_hat : list of (out, in + 1), the source weights
    inputs : (n, r), row-space coordinates of (x, 1)
    base : (n, width 1), the first pre-activation at theta_hat
    basis : (p + 1, r), orthonormal columns
    y : (n,), standardised gaps in float64, or (chain, n) where every chain has its own labels, as
        in simulation-based checks
    constant : the last input of the output layer, by which its bias is multiplied
    fixed_preactivation : (chain, n, width 1), what inputs of the first layer with fixed weights add
        to its pre-activation at scale 1 (`with_inputs`)
    """

    theta_hat: Layers
    inputs: Tensor
    base: Tensor
    basis: Tensor
    y: Tensor
    constant: float = 1.0
    fixed_preactivation: Tensor | None = None

    @property
    def n_layers(self) -> int:
        return len(self.theta_hat)

    @property
    def n_rows(self) -> int:
        return self.inputs.shape[0]

    @property
    def isotropic(self) -> bool:
        """Whether all weights of a layer have one prior standard deviation.

        Gradients by z are then sums of g h'.
        """
        return True

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (out, in) of z for each sampled layer, all but the last.

        The inputs of the first layer are row-space coordinates.
        """
        first = (self.theta_hat[0].shape[0], self.inputs.shape[1])
        return [first, *[(int(t.shape[0]), int(t.shape[1])) for t in self.theta_hat[1:-1]]]

    def repeated(self, times: int) -> "WhitenedNetwork":
        """Return the network of a batch in which every chain is repeated `times` times in a row."""
        y = self.y if self.y.ndim == 1 else self.y.repeat_interleave(times, 0)
        fixed = self.fixed_preactivation
        if fixed is not None:
            fixed = fixed.repeat_interleave(times, 0)
        return replace(self, y=y, fixed_preactivation=fixed)

    def project(self, z_1: Tensor) -> Tensor:
        """Return what the first layer's z (chain, out, in) adds to its pre-activation at scale 1.

        The result has shape (chain, n, out).
        """
        added = self.inputs @ z_1.transpose(1, 2)
        if self.fixed_preactivation is None:
            return added
        return added.add_(self.fixed_preactivation)

    def with_inputs(self, columns: slice, z_1: Tensor) -> "WhitenedNetwork":
        """Return the network of some of the first layer's inputs, with the other weights fixed.

        `columns` begins at the first input or ends at the last one. The weights of the other inputs
        are those in z_1 (chain, out, in). Only for isotropic networks.
        """
        assert self.fixed_preactivation is None, "inputs are split once"
        is_leading = columns.start is None
        fixed_columns = slice(columns.stop, None) if is_leading else slice(None, columns.start)
        fixed = self.inputs[:, fixed_columns] @ z_1[:, :, fixed_columns].transpose(1, 2)
        return replace(self, inputs=self.inputs[:, columns].contiguous(), fixed_preactivation=fixed)

    def weights(self, layer: int, s: Tensor, z: Tensor) -> Tensor:
        """Return the weights of a sampled layer from the second on, (chain, out, in).

        `s` has shape (chain, 1, 1).
        """
        return self.theta_hat[layer] + s * z

    def reach(self, layer: int, h: Tensor) -> float:
        """Return by how much z of unit variance in one layer moves a unit's input at scale 1.

        The value is a root mean square. `h` (..., n, in) are the layer's inputs.
        """
        return float(h.double().square().sum(-1).mean().sqrt())

    def by_z(self, layer: int, s: Tensor, g: Tensor, h: Tensor) -> Tensor:
        """Return a gradient by z of a sampled layer, (chain, out, in).

        `g` (chain, n, out) is the gradient by the layer's pre-activation, `h` (..., n, in) are its
        inputs, `s` (chain, 1, 1) its scale.
        """
        return s * (g.transpose(1, 2) @ h)

    def stored(self, z: Layers) -> Layers:
        """Return what a stored draw needs of z."""
        return z


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Row space of inputs: orthonormal columns (p + 1, r), and the inputs' coordinates (n, r)."""

    basis: Tensor
    coordinates: Tensor


def row_space(wide: Tensor) -> RowSpace:
    """Return the row space of inputs (n, p + 1)."""
    u, singular, vt = torch.linalg.svd(wide, full_matrices=False)
    keep = singular > RANK_TOLERANCE * singular[0]
    return RowSpace(vt[keep].T, u[:, keep] * singular[keep])


def whiten(
    theta_hat: Layers, x: Tensor, y: Tensor, *, device: torch.device, dtype: torch.dtype
) -> WhitenedNetwork:
    """Reduce a problem to row-space coordinates.

    `theta_hat[l]` has shape (out, in + 1), standardised x (n, p) and y (n,).
    """
    wide = torch.cat([x.double(), torch.ones(x.shape[0], 1, dtype=torch.float64)], 1)
    rows = row_space(wide)
    base = wide @ theta_hat[0].double().T

    def place(tensor: Tensor) -> Tensor:
        return tensor.to(device=device, dtype=dtype).contiguous()

    return WhitenedNetwork(
        [place(t) for t in theta_hat],
        place(rows.coordinates),
        place(base),
        place(rows.basis),
        y.to(device, torch.float64),
    )


@dataclass(frozen=True, eq=False)
class Hidden:
    """Result of a forward pass to the last hidden layer.

    `inputs` are the inputs of every layer, after ReLU: the first is (n, r), the others
    (chain, n, in + 1), and the last is H, the input of the output layer. `gates` are those of every
    hidden layer where ReLU is rounded (`soft_rectifier`), else empty.
    """

    inputs: Layers
    gates: Layers = field(default_factory=list)

    @property
    def features(self) -> Tensor:
        """H, (chain, n, q)."""
        return self.inputs[-1]

    def without(self, chains: Tensor) -> "Hidden":
        """Return a copy with zeros for the marked chains (chain,), so that no gradient passes."""
        bad = chains[:, None, None]
        upper = [torch.where(bad, torch.zeros_like(h), h) for h in self.inputs[1:]]
        gates = [torch.where(bad, torch.zeros_like(gate), gate) for gate in self.gates]
        return Hidden([self.inputs[0], *upper], gates)

    def through(self, layer: int, g: Tensor) -> Tensor:
        """Return the gradient by the units of hidden layer `layer` (from 1), before its ReLU.

        `g` (chain, n, units) is the gradient after the ReLU.
        """
        return g * self.gates[layer - 1] if self.gates else through_relu(g, self.inputs[layer])


def hidden_features(
    net: WhitenedNetwork,
    z: Layers,
    scales: Scales,
    *,
    projected: Tensor | None = None,
    widths: Sequence[float] = (),
) -> Hidden:
    """Evaluate the hidden layers at whitened z.

    `projected` is `net.project(z[0])`, if it is known from another scale. `widths` are half widths
    of the rounded ReLU, one for every hidden layer; without them ReLU is exact.
    """
    s = scales.s.to(z[0].dtype)[:, :, None, None]
    pre = torch.addcmul(net.base, s[:, 0], net.project(z[0]) if projected is None else projected)
    inputs = [net.inputs]
    gates = []
    for layer in range(1, net.n_layers):
        constant = 1.0 if layer < net.n_layers - 1 else net.constant
        wide, gate = rectified(pre, constant, widths[layer - 1] if widths else 0.0)
        inputs.append(wide)
        if gate is not None:
            gates.append(gate)
        if layer < net.n_layers - 1:
            pre = wide @ net.weights(layer, s[:, layer], z[layer]).transpose(1, 2)
    return Hidden(inputs, gates)


@dataclass(frozen=True, eq=False)
class OutputLayer:
    """The output layer given H, in float64; `features` have the precision of their products.

    Parameters
    ----------
    features : H, (chain, n, q)
    mean : (chain, q), of the output weights
    factor : (chain, q, q), C of B = CC'
    solved : (chain, q), B^-1 H'r
    misfit : (chain,), |r|^2 - rho r'H B^-1 H'r
    log_likelihood : (chain,), log p(y | H)
    """

    features: Tensor
    mean: Tensor
    factor: Tensor
    solved: Tensor
    misfit: Tensor
    log_likelihood: Tensor

    @cached_property
    def inverse(self) -> Tensor:
        """B^-1, (chain, q, q); only gradients need it."""
        result: Tensor = torch.cholesky_inverse(self.factor)
        return result


def integrate_output(
    net: WhitenedNetwork, hidden: Hidden, scales: Scales, *, rough: bool = False
) -> OutputLayer:
    """Integrate the output layer out.

    `rough` forms the products of the features in the features' own precision, for forces.
    """
    rho = scales.rho
    sigma = scales.sigma
    h = hidden.features if rough else hidden.features.double()
    centre = net.theta_hat[-1].double().T
    y = net.y.to(h.dtype).unsqueeze(-1)
    signal = (h.mT @ h).double()
    match = (h.mT @ y).double()
    pull = match - signal @ centre
    b = rho[:, None, None] * signal
    b.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(b)
    solved = torch.cholesky_solve(pull, factor)
    square = (net.y**2).sum(-1) - ((match + pull) * centre).sum((1, 2))
    misfit = square - rho * (pull * solved).sum((1, 2))
    log_det = torch.log(factor.diagonal(dim1=-2, dim2=-1)).sum(-1)
    constant = -0.5 * net.n_rows * math.log(2 * math.pi)
    value = constant - net.n_rows * torch.log(sigma) - log_det - 0.5 * misfit / sigma**2
    mean = (centre + rho[:, None, None] * solved).squeeze(-1)
    return OutputLayer(h, mean, factor, solved.squeeze(-1), misfit, value)


def draw_output(output: OutputLayer, scales: Scales, *, generator: torch.Generator) -> Tensor:
    """Draw the output weights from their exact conditional, (chain, q), in float64."""
    noise = torch.randn(
        output.mean.shape, generator=generator, device=output.mean.device, dtype=torch.float64
    )
    step = torch.linalg.solve_triangular(output.factor.mT, noise.unsqueeze(-1), upper=True)
    sd = scales.sigma * torch.sqrt(scales.rho)
    result: Tensor = output.mean + sd[:, None] * step.squeeze(-1)
    return result


def gradient(
    net: WhitenedNetwork, z: Layers, scales: Scales, hidden: Hidden, output: OutputLayer
) -> Layers:
    """Return d log p(y | H) / dz of the sampled layers, list of (chain, out, in)."""
    return slopes(net, z, scales, hidden, output)[0]


def slopes(
    net: WhitenedNetwork, z: Layers, scales: Scales, hidden: Hidden, output: OutputLayer
) -> tuple[Layers, Tensor]:
    """Return `gradient`, and the gradient by the first pre-activation, (chain, n, width 1)."""
    dtype = z[0].dtype
    rho = scales.rho[:, None, None]
    pull = (output.mean / scales.sigma[:, None] ** 2).unsqueeze(1)
    by_h = torch.baddbmm(rho * output.inverse, output.mean.unsqueeze(2), pull)[:, :, :-1].to(dtype)
    by_y = net.y.to(dtype).unsqueeze(-1) * pull[:, :, :-1].to(dtype)
    s = scales.s.to(dtype)[:, :, None, None]
    g = hidden.through(net.n_layers - 1, torch.baddbmm(by_y, hidden.features, by_h, alpha=-1.0))
    result: Layers = []
    for layer in range(net.n_layers - 2, -1, -1):
        result.insert(0, net.by_z(layer, s[:, layer], g, hidden.inputs[layer]))
        if layer:
            weight = net.weights(layer, s[:, layer], z[layer])[:, :, :-1]
            g = hidden.through(layer, g @ weight)
    return result, g


def scale_gradient(
    net: WhitenedNetwork,
    z: Layers,
    by_z: Layers,
    output: OutputLayer,
    scales: Scales,
    *,
    by_first: Tensor | None = None,
) -> ScaleGradient:
    """Return the gradient of log p(y | H) by the scales, given that by z.

    `by_first` is the gradient by the first pre-activation. It is needed where the network has fixed
    weights of some inputs.

    s_l enters as s_l z_l, so that d / d log s_l = z_l . d / dz_l. With a = H'r,
    d / d log rho = (tr B^-1 - q) / 2 + rho |B^-1 a|^2 / (2 sigma^2), and d / d log sigma at fixed s
    and rho is |r|^2_B / sigma^2 - n.
    """
    by_s = [
        torch.linalg.vecdot(q.flatten(1), g.flatten(1)).double()
        for q, g in zip(z, by_z, strict=True)
    ]
    fixed = net.fixed_preactivation
    if fixed is not None and by_first is not None:
        along_fixed = torch.linalg.vecdot(by_first.flatten(1), fixed.flatten(1)).double()
        by_s[0] = by_s[0] + scales.s[:, 0] * along_fixed
    width = output.factor.shape[-1]
    trace = output.inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
    by_rho = 0.5 * (trace - width) + 0.5 * scales.rho * (output.solved**2).sum(-1) / scales.sigma**2
    by_log_square = torch.stack([*[0.5 * g for g in by_s], by_rho], -1)
    return ScaleGradient(by_log_square, output.misfit / scales.sigma**2 - net.n_rows)
