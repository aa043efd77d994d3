r"""A network posterior in whitened coordinates: first layer in the row space of the inputs, last layer integrated out.

theta_l = theta_hat_l + s_l z_l with z ~ N(0, I). Two exact reductions make it small:

- Row space. With the first layer's input written as (x, 1) and X = U S V' for the training inputs (n, p + 1), the
  likelihood meets z_1 only through z_1 V: its r = rank(X) row-space coordinates are sampled, and the orthogonal part
  keeps its prior (rotate z_1 by (V, V_orthogonal): an isotropic Gaussian stays one). It is drawn at prediction time.
- Last layer. Given the last hidden features H (n, q), bias included, the output weights are a Gaussian linear model
  with B = I + rho H'H, rho = (s_L / sigma)^2, residual r = y - H theta_hat_L:
      log p(y | H) = -n/2 log(2 pi sigma^2) - 1/2 log|B| - (|r|^2 - rho r'H B^-1 H'r) / (2 sigma^2)
      w | y, H ~ N(mu, sigma^2 rho B^-1),   mu = theta_hat_L + rho B^-1 H'r
      d log p / dH = ((y - H mu) mu' - sigma^2 rho H B^-1) / sigma^2
  What is stiff about the joint posterior (the output's level and scale) is gone from what remains.

Layers are lists (index 0 is layer 1) of tensors (chain, out, in + 1), the bias being the last input.
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

    `theta_hat[l]` (out, in + 1); `inputs` (n, r) are the row-space coordinates of (x, 1); `base` (n, width 1) is the
    first pre-activation at theta_hat; `basis` (p + 1, r) has orthonormal columns; `y` (n,) standardised gaps in
    float64, or (chain, n) where every chain has labels of its own (simulation-based checks). `constant` is the last of
    the output layer's inputs, what its bias is multiplied by. `rest` (chain, n, width 1) is what inputs of the first
    layer whose weights are held fixed add to its pre-activation at scale 1 (`at_inputs`).
    """

    theta_hat: Layers
    inputs: Tensor
    base: Tensor
    basis: Tensor
    y: Tensor
    constant: float = 1.0
    rest: Tensor | None = None

    @property
    def n_layers(self) -> int:
        return len(self.theta_hat)

    @property
    def n_rows(self) -> int:
        return self.inputs.shape[0]

    @property
    def isotropic(self) -> bool:
        """Whether all weights of a layer have one prior standard deviation, so that gradients by z are sums of g h'."""
        return True

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shape (out, in) of z for each sampled layer, all but the last; the first one's inputs are row-space."""
        first = (self.theta_hat[0].shape[0], self.inputs.shape[1])
        return [first, *[(int(t.shape[0]), int(t.shape[1])) for t in self.theta_hat[1:-1]]]

    def repeated(self, times: int) -> "WhitenedNetwork":
        """Return the same for a batch in which every chain stands `times` times, one after the other."""
        y = self.y if self.y.ndim == 1 else self.y.repeat_interleave(times, 0)
        return replace(
            self, y=y, rest=None if self.rest is None else self.rest.repeat_interleave(times, 0)
        )

    def project(self, z_1: Tensor) -> Tensor:
        """Return what the first layer's z (chain, out, in) adds to its pre-activation at scale 1, (chain, n, out)."""
        added = self.inputs @ z_1.transpose(1, 2)
        return added if self.rest is None else added.add_(self.rest)

    def at_inputs(self, chosen: slice, z_1: Tensor) -> "WhitenedNetwork":
        """Return the network of some of the first layer's inputs, given the weights z_1 (chain, out, in) of the others.

        `chosen` is a run of inputs from the first or to the last. Only where the network is isotropic.
        """
        assert self.rest is None, "inputs are split once"
        others = slice(chosen.stop, None) if chosen.start is None else slice(None, chosen.start)
        rest = self.inputs[:, others] @ z_1[:, :, others].transpose(1, 2)
        return replace(self, inputs=self.inputs[:, chosen].contiguous(), rest=rest)

    def weights(self, layer: int, s: Tensor, z: Tensor) -> Tensor:
        """Return the weights of a sampled layer from the second on, (chain, out, in), for s of shape (chain, 1, 1)."""
        return self.theta_hat[layer] + s * z

    def reach(self, layer: int, h: Tensor) -> float:
        """Return by how much z of one layer, of unit variance, moves a unit's input at scale 1: a root mean square.

        `h` (..., n, in) are the layer's inputs.
        """
        return float(h.double().square().sum(-1).mean().sqrt())

    def by_z(self, layer: int, s: Tensor, g: Tensor, h: Tensor) -> Tensor:
        """Return a gradient by z of a sampled layer, (chain, out, in).

        It is made of g (chain, n, out), that by the layer's pre-activation, and its inputs h (..., n, in); the scale s
        has shape (chain, 1, 1).
        """
        return s * (g.transpose(1, 2) @ h)

    def kept(self, z: Layers) -> Layers:
        """Return what a stored draw needs of z."""
        return z


@dataclass(frozen=True, eq=False)
class RowSpace:
    """Orthonormal columns (p + 1, r) that span the rows of inputs, and the inputs' coordinates (n, r) in them."""

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
    """Reduce a problem to row-space coordinates: `theta_hat[l]` (out, in + 1), standardised x (n, p) and y (n,)."""
    wide = torch.cat([x.double(), torch.ones(x.shape[0], 1, dtype=torch.float64)], 1)
    rows, base = row_space(wide), wide @ theta_hat[0].double().T

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
    """What one forward pass to the last hidden layer leaves: the input of every layer, after its ReLU, and its gates.

    `gates` are those of every hidden layer where ReLU was rounded off (`soft_rectifier`), otherwise there are none.
    """

    inputs: Layers  # the first is (n, r), the others (chain, n, in + 1); the last is H, the input of the output layer
    gates: Layers = field(default_factory=list)

    @property
    def features(self) -> Tensor:
        """H, (chain, n, q)."""
        return self.inputs[-1]

    def without(self, chains: Tensor) -> "Hidden":
        """Return the same with the features of the marked chains (chain,) set to zero, so that no gradient passes."""
        bad = chains[:, None, None]
        inputs = [
            self.inputs[0],
            *[torch.where(bad, torch.zeros_like(h), h) for h in self.inputs[1:]],
        ]
        return Hidden(
            inputs, [torch.where(bad, torch.zeros_like(gate), gate) for gate in self.gates]
        )

    def through(self, layer: int, g: Tensor) -> Tensor:
        """Return g (chain, n, units), a gradient by the units of hidden layer `layer` (from 1), before its ReLU."""
        return g * self.gates[layer - 1] if self.gates else through_relu(g, self.inputs[layer])


def hidden_features(
    net: WhitenedNetwork,
    z: Layers,
    scales: Scales,
    *,
    projected: Tensor | None = None,
    widths: Sequence[float] = (),
) -> Hidden:
    """Evaluate the last hidden layer at whitened z.

    `projected` is `net.project(z[0])` where it is known already, for several scales at one z. With `widths`, one for
    every hidden layer, ReLU is rounded off so far.
    """
    s = scales.s.to(z[0].dtype)[:, :, None, None]
    pre = torch.addcmul(net.base, s[:, 0], net.project(z[0]) if projected is None else projected)
    inputs, gates = [net.inputs], []
    for layer in range(1, net.n_layers):
        constant = 1.0 if layer < net.n_layers - 1 else net.constant
        wide, gate = rectified(pre, constant, widths[layer - 1] if widths else 0.0)
        inputs.append(wide)
        gates += [] if gate is None else [gate]
        if layer < net.n_layers - 1:
            pre = wide @ net.weights(layer, s[:, layer], z[layer]).transpose(1, 2)
    return Hidden(inputs, gates)


@dataclass(frozen=True, eq=False)
class OutputLayer:
    """The output layer given H: mean (chain, q), factor C of B = CC' (chain, q, q), and log p(y | H).

    In float64, the features in that of their products; the log likelihood has shape (chain,).
    """

    features: Tensor
    mean: Tensor
    factor: Tensor
    solved: Tensor  # B^-1 H'r, (chain, q)
    misfit: Tensor  # |r|^2 - rho r'H B^-1 H'r, (chain,)
    log_likelihood: Tensor

    @cached_property
    def inverse(self) -> Tensor:
        """B^-1, (chain, q, q); computed once, and only where a gradient is wanted."""
        result: Tensor = torch.cholesky_inverse(self.factor)
        return result


def integrate_output(
    net: WhitenedNetwork, hidden: Hidden, scales: Scales, *, rough: bool = False
) -> OutputLayer:
    """Integrate the output layer out; `rough` forms the products of the features in their own precision, for forces."""
    rho, sigma = scales.rho, scales.sigma
    h = hidden.features if rough else hidden.features.double()
    start, y = net.theta_hat[-1].double().T, net.y.to(h.dtype).unsqueeze(-1)
    signal, match = (h.mT @ h).double(), (h.mT @ y).double()
    pull = match - signal @ start
    b = rho[:, None, None] * signal
    b.diagonal(dim1=-2, dim2=-1).add_(1.0)
    factor = torch.linalg.cholesky(b)
    solved = torch.cholesky_solve(pull, factor)
    square = (net.y**2).sum(-1) - ((match + pull) * start).sum((1, 2))
    misfit = square - rho * (pull * solved).sum((1, 2))
    log_det = torch.log(factor.diagonal(dim1=-2, dim2=-1)).sum(-1)
    constant = -0.5 * net.n_rows * math.log(2 * math.pi)
    value = constant - net.n_rows * torch.log(sigma) - log_det - 0.5 * misfit / sigma**2
    mean = (start + rho[:, None, None] * solved).squeeze(-1)
    return OutputLayer(h, mean, factor, solved.squeeze(-1), misfit, value)


def draw_output(output: OutputLayer, scales: Scales, *, generator: torch.Generator) -> Tensor:
    """Draw the output weights from their exact conditional, (chain, q), in float64."""
    noise = torch.randn(
        output.mean.shape, generator=generator, device=output.mean.device, dtype=torch.float64
    )
    step = torch.linalg.solve_triangular(output.factor.mT, noise.unsqueeze(-1), upper=True).squeeze(
        -1
    )
    result: Tensor = output.mean + (scales.sigma * torch.sqrt(scales.rho))[:, None] * step
    return result


def gradient(
    net: WhitenedNetwork, z: Layers, scales: Scales, hidden: Hidden, output: OutputLayer
) -> Layers:
    """Return d log p(y | H) / dz of the sampled layers, list of (chain, out, in)."""
    return slopes(net, z, scales, hidden, output)[0]


def slopes(
    net: WhitenedNetwork, z: Layers, scales: Scales, hidden: Hidden, output: OutputLayer
) -> tuple[Layers, Tensor]:
    """Return `gradient`, and the gradient by the first layer's pre-activation, (chain, n, width 1)."""
    dtype, rho = z[0].dtype, scales.rho[:, None, None]
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

    Where the network holds the weights of some inputs fixed, `by_first` is the gradient by the first pre-activation.

    s_l enters as s_l z_l, so that d / d log s_l = z_l . d / dz_l; with a = H'r, d / d log rho = (tr B^-1 - q) / 2 +
    rho |B^-1 a|^2 / (2 sigma^2), and d / d log sigma at fixed s and rho = |r|^2_B / sigma^2 - n.
    """
    by_s = [
        torch.linalg.vecdot(q.flatten(1), g.flatten(1)).double()
        for q, g in zip(z, by_z, strict=True)
    ]
    if net.rest is not None and by_first is not None:
        by_s[0] = (
            by_s[0]
            + scales.s[:, 0]
            * torch.linalg.vecdot(by_first.flatten(1), net.rest.flatten(1)).double()
        )
    width = output.factor.shape[-1]
    trace = output.inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
    by_rho = 0.5 * (trace - width) + 0.5 * scales.rho * (output.solved**2).sum(-1) / scales.sigma**2
    by_log_square = torch.stack([*[0.5 * g for g in by_s], by_rho], -1)
    return ScaleGradient(by_log_square, output.misfit / scales.sigma**2 - net.n_rows)
