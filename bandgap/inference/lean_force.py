r"""The force along a path for chains on a CPU, one chain at a time in buffers that are made once a path.

The same numbers as `joint_hmc.log_force` with rounded ReLU, up to rounding errors, in a little more than half of its
time: on arrays of this size (500 rows, 128 units) making new memory and small operations cost as much as arithmetic.
With y = x + w the rounded ReLU is u (y - w u), u = min(max(y / (2 w), 0), 1).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bandgap.inference.partial_centring import Frames
from bandgap.inference.scales import ScaleGradient, ScalePrior
from bandgap.inference.whitened_network import Layers, WhitenedNetwork

ROUGH_SIGNAL = 1e4  # trace of rho H'H up to which a force may form H'H in float32


def lean(net: WhitenedNetwork, widths: Sequence[float]) -> bool:
    """Return whether `LeanForce` can give the forces of this network."""
    return bool(widths) and min(widths) > 0 and net.isotropic and net.y.ndim == 1 and net.y.device.type == "cpu"


class LeanForce:
    """Gradients by zeta (or z, without frames) and by the scales' state, of one chain at a time."""

    def __init__(self, net: WhitenedNetwork, prior: ScalePrior, frames: Frames, widths: Sequence[float]) -> None:
        self._net, self._prior, self._frames, self._widths = net, prior, frames, tuple(widths)
        units, shapes = [t.shape[0] for t in net.theta_hat[:-1]], net.shapes
        self._start, self._y = net.theta_hat[-1].double()[0], net.y.to(net.base.dtype)
        self._square = float((net.y**2).sum())
        self._shifted = net.base + self._widths[0]
        self._added, self._signal = self._empty(*net.base.shape), self._empty(units[-1] + 1, units[-1] + 1)
        self._y_pre, self._gate, self._slope = ([self._empty(net.n_rows, k) for k in units] for _ in range(3))
        self._wide = [self._empty(net.n_rows, k + 1) for k in units]
        for layer, wide in enumerate(self._wide):
            wide[:, -1] = 1.0 if layer + 1 < len(units) else net.constant
        self._weights, self._z, self._turned, self._factor, self._spare = (
            [self._empty(*shape) for shape in shapes] for _ in range(5)
        )

    def _empty(self, *shape: int) -> Tensor:
        return self._net.base.new_empty(shape)

    def __call__(self, zeta: Layers, state: Tensor, chain: int) -> tuple[Layers, Tensor] | None:
        """Return the gradients by zeta, list of new (out, in), and by the state (1, width).

        `zeta` is a list of (out, in) of the chain whose number is `chain`. None where float32 is too coarse or numbers
        left their range.
        """
        scales = self._prior.scales(state)
        s, rho, variance = scales.s[0].tolist(), float(scales.rho), float(scales.sigma) ** 2
        largest = torch.finfo(self._y.dtype).max
        if not all(0.0 < number < largest for number in (*s, rho, variance)):
            return None
        self._place(zeta, s)
        self._forward(s, chain)
        h = self._wide[-1]
        signal = torch.mm(h.T, h, out=self._signal).double()
        if not rho * float(signal.trace()) < ROUGH_SIGNAL:
            return None
        match = torch.mv(h.T, self._y).double()
        pull = match - signal @ self._start
        signal.mul_(rho).diagonal().add_(1.0)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(signal))
        solved = inverse @ pull
        mean = torch.add(self._start, solved, alpha=rho)
        misfit = self._square - float((match + pull) @ self._start) - rho * float(pull @ solved)
        by_h = torch.addr(inverse, mean, mean, beta=rho, alpha=1.0 / variance)[:, :-1].to(h.dtype)
        g = torch.mm(h, by_h, out=self._slope[-1])
        torch.addr(g, self._y, (mean[:-1] / variance).to(h.dtype), beta=-1.0, out=g)
        by_log_square = self._backward(g, s)
        by_rho = 0.5 * (float(inverse.trace()) - len(pull)) + 0.5 * rho * float(solved @ solved) / variance
        by_zeta = self._by_zeta(zeta, by_log_square)
        by_scales = ScaleGradient(
            torch.tensor([[*by_log_square, by_rho]], dtype=torch.float64),
            torch.tensor([misfit / variance - self._net.n_rows], dtype=torch.float64),
        )
        _, by_prior = self._prior.log_density_and_gradient(state)
        by_state = self._prior.by_state(state, by_scales) + by_prior
        return (by_zeta, by_state) if bool(torch.isfinite(by_state).all()) else None

    def _place(self, zeta: Layers, s: list[float]) -> None:
        """Write z and, with frames, z in their directions and the factors z / zeta."""
        if not self._frames:
            self._z = list(zeta)
            return
        for i, frame in enumerate(self._frames):
            grown = math.exp(2.0 * (math.log(s[i]) - frame.log_scale))
            torch.mul(frame.information, grown, out=self._factor[i]).add_(1.0).rsqrt_()
            torch.mul(zeta[i], self._factor[i], out=self._turned[i])
            if frame.right is None:
                torch.mm(frame.left, self._turned[i], out=self._z[i])
            else:
                torch.mm(frame.left, self._turned[i], out=self._spare[i])
                torch.mm(self._spare[i], frame.right.T, out=self._z[i])

    def _forward(self, s: list[float], chain: int) -> None:
        """Write every layer's rectified features and gates."""
        net = self._net
        if net.rest is None:
            torch.mm(net.inputs, self._z[0].T, out=self._added)
        else:
            torch.addmm(net.rest[chain], net.inputs, self._z[0].T, out=self._added)
        torch.add(self._shifted, self._added, alpha=s[0], out=self._y_pre[0])
        for i, w in enumerate(self._widths):
            if i:
                torch.add(net.theta_hat[i], self._z[i], alpha=s[i], out=self._weights[i])
                torch.mm(self._wide[i - 1], self._weights[i].T, out=self._y_pre[i]).add_(w)
            y, u = self._y_pre[i], self._gate[i]
            torch.mul(y, 0.5 / w, out=u).clamp_(0.0, 1.0)
            torch.add(y, u, alpha=-w, out=self._wide[i][:, :-1]).mul_(u)

    def _backward(self, g: Tensor, s: list[float]) -> list[float]:
        """Write the gradients by z into `_spare`, and return those by the layers' log s^2 at fixed z."""
        by_log_square = [0.0] * len(s[:-1])
        for i in range(len(by_log_square) - 1, -1, -1):
            g.mul_(self._gate[i])
            inputs = self._wide[i - 1] if i else self._net.inputs
            by_z = torch.mm(g.T, inputs, out=self._spare[i]).mul_(s[i])
            if i:
                by_log_square[i] = 0.5 * float(torch.dot(self._z[i].flatten(), by_z.flatten()))
                g = torch.mm(g, self._weights[i][:, :-1], out=self._slope[i - 1])
            else:
                by_log_square[0] = 0.5 * s[0] * float(torch.dot(g.flatten(), self._added.flatten()))
        return by_log_square

    def _by_zeta(self, zeta: Layers, by_log_square: list[float]) -> Layers:
        """Return the gradients by zeta, and take what frames change of those by the scales into account, in place."""
        if not self._frames:
            return [by_z.clone() for by_z in self._spare]
        result = []
        for i, frame in enumerate(self._frames):
            y, f, turned = frame.turned(self._spare[i]).sub_(self._turned[i]), self._factor[i], self._turned[i]
            # of the pull, sum (1 - f^2) z y, and of the Jacobian, sum (1 - f^2)
            pull = float(torch.dot(turned.flatten(), y.flatten()))
            pull -= float(torch.dot(turned.mul_(f).flatten(), torch.mul(y, f, out=self._z[i]).flatten()))
            share = f.numel() - float(torch.dot(f.flatten(), f.flatten()))
            by_log_square[i] -= 0.5 * (pull + share)
            result.append(self._z[i] + zeta[i])
        return result
