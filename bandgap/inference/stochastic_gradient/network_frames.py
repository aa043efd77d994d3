r"""Coordinates in which the weights of a layer are about independent and of unit width: a metric that knows the scales.

A mode's Fisher information is about a Kronecker product in every layer, of the gradients g by its outputs and of its
inputs h (Martens and Grosse, 2015). In the eigenvectors of both, columns of `left` and `right`, the diagonal lam of the
information is exact (George and others, 2018), and a weight whose data hold lam times what its prior does has about the
posterior variance f^2 = 1 / (1 + lam). So z = left (f * zeta) right', and zeta is sampled: that is a metric G of the
form left f^2 left', fixed in zeta. lam grows with (s / sigma)^2, s the layer's scale and sigma the noise, and so does f
here: weights that the data hold stay where they are as scales and noise move (partial non-centring,
`network/partial_centring.py`). The frames are frozen before sampling and change its speed alone, not its law.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerFrame:
    """Directions of one layer's outputs, `left` (out, out), and inputs, `right` (in, in); None leaves them as they are.

    `information` (out, in) is lam where log(s / sigma) is `log_scale`.
    """

    left: Tensor | None
    right: Tensor | None
    information: Tensor
    log_scale: float

    def turned(self, q: Tensor) -> Tensor:
        """Return q (chain, out, in) in the frame's directions."""
        q = q if self.left is None else self.left.T @ q
        return q if self.right is None else q @ self.right

    def back(self, q: Tensor) -> Tensor:
        """Undo `turned`."""
        q = q if self.left is None else self.left @ q
        return q if self.right is None else q @ self.right.T

    def factors(self, log_scale: Tensor) -> Tensor:
        """Return f (chain, out, in) at log(s / sigma) (chain,)."""
        grown = torch.exp(2.0 * (log_scale - self.log_scale)).to(self.information)
        return (self.information * grown[:, None, None]).add_(1.0).rsqrt_()

    @property
    def free_share(self) -> Tensor:
        """Share (out, in) of a weight's width that the prior alone leaves: 1 where the rows say nothing."""
        return 1.0 / (1.0 + self.information)


def layer_frame(
    g: Tensor, h: Tensor, *, log_scale: float, turn_left: bool, turn_right: bool
) -> LayerFrame:
    """Return the frame of a layer from rows: g (n, out) and h (n, in) are such that lam is the sum of (g h')^2."""
    wide_g, wide_h = g.double(), h.double()
    left = torch.linalg.eigh(wide_g.T @ wide_g)[1] if turn_left else None
    right = torch.linalg.eigh(wide_h.T @ wide_h)[1] if turn_right else None
    information = squares_in(left, right, wide_g, wide_h)
    placed = [None if part is None else part.to(h).contiguous() for part in (left, right)]
    return LayerFrame(placed[0], placed[1], information.to(h), log_scale)


def squares_in(left: Tensor | None, right: Tensor | None, g: Tensor, h: Tensor) -> Tensor:
    """Return the sum over rows of the squares of g h' (n, out, in) in directions, (out, in)."""
    g = g if left is None else g @ left.to(g)
    h = h if right is None else h @ right.to(h)
    return g.square().T @ h.square()


def plain_frame(shape: tuple[int, int], like: Tensor) -> LayerFrame:
    """Return the frame in which zeta is z (out, in)."""
    return LayerFrame(None, None, like.new_zeros(shape), 0.0)
