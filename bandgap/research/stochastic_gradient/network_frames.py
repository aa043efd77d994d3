"""Coordinates in which a layer's weights are nearly independent and of unit width.

At a mode the Fisher information of a layer is about a Kronecker product of the gradients g by its
outputs and of its inputs h (Martens and Grosse, 2015). In the eigenvectors of both, columns of
`left_vectors` and `right_vectors`, the diagonal lam of the information is exact (George and others,
2018). A weight for which the data have lam times the information of its prior has about the
posterior variance f^2 = 1 / (1 + lam). Therefore z = left_vectors (f * zeta) right_vectors', and
zeta is sampled: this is a metric G of the form left_vectors f^2 left_vectors', constant in zeta.

lam grows with (s / sigma)^2, s the scale of the layer and sigma the noise, and f follows. Weights
that the data determine therefore stay where they are while scales and noise move (partial
non-centring, `network/partial_centring.py`). The frames are frozen before sampling. They change its
speed, not its law.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LayerFrame:
    """Directions of the outputs, `left_vectors` (out, out), and of the inputs of one layer.

    `right_vectors` are (in, in). None means the identity. `information` (out, in) is lam where
    log(s / sigma) is `log_scale`.
    """

    left_vectors: Tensor | None
    right_vectors: Tensor | None
    information: Tensor
    log_scale: float

    def turned(self, q: Tensor) -> Tensor:
        """Return q (chain, out, in) in the directions of the frame."""
        q = q if self.left_vectors is None else self.left_vectors.T @ q
        return q if self.right_vectors is None else q @ self.right_vectors

    def back(self, q: Tensor) -> Tensor:
        """Return the inverse of `turned`."""
        q = q if self.left_vectors is None else self.left_vectors @ q
        return q if self.right_vectors is None else q @ self.right_vectors.T

    def factors(self, log_scale: Tensor) -> Tensor:
        """Return f (chain, out, in) at log(s / sigma) (chain,)."""
        growth = torch.exp(2.0 * (log_scale - self.log_scale)).to(self.information)
        return (self.information * growth[:, None, None]).add_(1.0).rsqrt_()

    @property
    def free_share(self) -> Tensor:
        """Posterior over prior variance (out, in) of every weight: 1 without data."""
        return 1.0 / (1.0 + self.information)


def layer_frame(
    g: Tensor, h: Tensor, *, log_scale: float, turn_left: bool, turn_right: bool
) -> LayerFrame:
    """Return the frame of a layer, whose lam is the sum over rows of (g h')^2.

    `g` is (n, out), `h` (n, in).
    """
    g64 = g.double()
    h64 = h.double()
    left_vectors = torch.linalg.eigh(g64.T @ g64)[1] if turn_left else None
    right_vectors = torch.linalg.eigh(h64.T @ h64)[1] if turn_right else None
    information = squares_in(left_vectors, right_vectors, g64, h64)
    return LayerFrame(
        None if left_vectors is None else left_vectors.to(h).contiguous(),
        None if right_vectors is None else right_vectors.to(h).contiguous(),
        information.to(h),
        log_scale,
    )


def squares_in(
    left_vectors: Tensor | None, right_vectors: Tensor | None, g: Tensor, h: Tensor
) -> Tensor:
    """Return the sum over rows of (g h')^2, (out, in), with g and h in the given directions."""
    g = g if left_vectors is None else g @ left_vectors.to(g)
    h = h if right_vectors is None else h @ right_vectors.to(h)
    return g.square().T @ h.square()


def plain_frame(shape: tuple[int, int], like: Tensor) -> LayerFrame:
    """Return the frame in which zeta equals z (out, in)."""
    return LayerFrame(None, None, like.new_zeros(shape), 0.0)
