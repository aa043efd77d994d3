"""Damped L-BFGS approximations G of an inverse Hessian, without dense matrices.

Pairs are s = theta_k - theta_(k-1) and y = -[g(theta_k; B) - g(theta_(k-1); B)] + lambda s, with
both gradients on one batch: y is the change of the gradient of the NEGATIVE log posterior. gamma =
max(y'y / s'y, delta) is taken from the newest pair before damping, or is delta if s'y <= 0; B_0 =
gamma I. A pair with s'y < r s'B_0 s is damped,

    ybar = th y + (1 - th) B_0 s,   th = (1 - r) s'B_0 s / (s'B_0 s - s'y),

so that s'ybar = max(s'y, r gamma s's) > 0 and all matrices are positive definite. With a = B_i s_i
and k = 1 / s'ybar

    G+ = (I - k s ybar') G (I - k ybar s') + k s s' = S+ S+',
    S+ = (I - k s q') S,   q = ybar - sqrt(s'ybar / s'a) a.

Both signs of the root are exact; with this one S+ = S where ybar = B s. (Wang, Ma, Goldfarb and
Liu, 2017; Wang, Deng and Lin, 2021, whose equation 8 has the sign of ybar wrong.)

Shapes: pairs (..., M, dim), oldest first, with rows of zeros for missing pairs; vectors (..., dim)
broadcast.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SHORTEST = 1e-12  # length of a step that makes a pair


@dataclass(frozen=True, eq=False)
class Pairs:
    """Steps s and changes y of the negative log posterior's gradient, (..., M, dim), undamped."""

    s: Tensor
    y: Tensor

    def pushed(self, s: Tensor, y: Tensor) -> "Pairs":
        """Return the pairs with a new one in place of the oldest; a step near 0 adds none."""
        short = (s.norm(dim=-1) < SHORTEST)[..., None, None]
        new_s = torch.cat([self.s[..., 1:, :], s.unsqueeze(-2)], -2)
        new_y = torch.cat([self.y[..., 1:, :], y.unsqueeze(-2)], -2)
        return Pairs(torch.where(short, self.s, new_s), torch.where(short, self.y, new_y))


def no_pairs(position: Tensor, memory: int) -> Pairs:
    """Return an empty memory of M pairs for positions (..., dim)."""
    empty = position.new_zeros((*position.shape[:-1], memory, position.shape[-1]))
    return Pairs(empty, empty)


@dataclass(frozen=True, eq=False)
class Factor:
    """What products with G and S need.

    s, ybar and q (..., M, dim); s'ybar (..., M), 1 for missing pairs; gamma (...). `damped` (...)
    is the share of a memory's pairs that were damped, 0 without pairs.
    """

    s: Tensor
    ybar: Tensor
    q: Tensor
    sy: Tensor
    gamma: Tensor
    damped: Tensor


def factor(pairs: Pairs, *, delta: float, r: float = 0.25) -> Factor:
    """Damp all pairs with the gamma of the newest one and return the factor of G and S."""
    s = pairs.s
    present = s.square().sum(-1) > 0
    gamma = _scale(pairs, present, delta)
    bs = gamma[..., None, None] * s
    sbs = (s * bs).sum(-1)
    sy = (s * pairs.y).sum(-1)
    low = present & (sy < r * sbs)
    theta = torch.where(low, (1.0 - r) * sbs / torch.where(low, sbs - sy, 1.0), 1.0)[..., None]
    ybar = theta * pairs.y + (1.0 - theta) * bs
    safe = torch.where(present, (s * ybar).sum(-1), 1.0)
    damped = low.sum(-1) / present.sum(-1).clamp(min=1)
    return Factor(s, ybar, _roots(s, ybar, bs, safe, present), safe, gamma, damped)


def _scale(pairs: Pairs, present: Tensor, delta: float) -> Tensor:
    s = pairs.s[..., -1, :]
    y = pairs.y[..., -1, :]
    sy = (s * y).sum(-1)
    usable = present[..., -1] & (sy > 0)
    ratio = y.square().sum(-1) / torch.where(usable, sy, 1.0)
    return torch.where(usable, ratio, delta).clamp(min=delta)


def _roots(s: Tensor, ybar: Tensor, bs: Tensor, sy: Tensor, present: Tensor) -> Tensor:
    """Return q (..., M, dim) from the triangular table of B_i s_j."""
    table = list(bs.unbind(-2))
    roots = []
    for i in range(len(table)):
        a = table[i]
        s_i = s[..., i, :]
        y_i = ybar[..., i, :]
        sa = torch.where(present[..., i], (s_i * a).sum(-1), 1.0)
        roots.append(y_i - torch.sqrt(sy[..., i] / sa)[..., None] * a)
        for j in range(i + 1, len(table)):
            s_j = s[..., j, :]
            by_y = (y_i * s_j).sum(-1) / sy[..., i]
            by_a = (a * s_j).sum(-1) / sa
            table[j] = table[j] + by_y[..., None] * y_i - by_a[..., None] * a
    return torch.stack(roots, -2)


def inverse_times(f: Factor, v: Tensor) -> Tensor:
    """Return G v by the two-loop recursion."""
    coefficients: list[Tensor] = []
    w = v
    for i in range(f.s.shape[-2] - 1, -1, -1):
        alpha = (f.s[..., i, :] * w).sum(-1) / f.sy[..., i]
        w = w - alpha[..., None] * f.ybar[..., i, :]
        coefficients.insert(0, alpha)
    w = w / f.gamma[..., None]
    for i, alpha in enumerate(coefficients):
        beta = (f.ybar[..., i, :] * w).sum(-1) / f.sy[..., i]
        w = w + (alpha - beta)[..., None] * f.s[..., i, :]
    return w


def root_times(f: Factor, z: Tensor) -> Tensor:
    """Return S z, where S S' = G of the same pairs."""
    eta = z / torch.sqrt(f.gamma)[..., None]
    for i in range(f.s.shape[-2]):
        along = (f.q[..., i, :] * eta).sum(-1) / f.sy[..., i]
        eta = eta - along[..., None] * f.s[..., i, :]
    return eta
