r"""A metric G that averages many L-BFGS matrices, as one scaled identity plus one low-rank part.

G_k = (1 - omega_k) G_(k-1) + omega_k G~_k is sum_j W_j G~_j with W_j = omega_j prod_(l > j) (1 - omega_l). Every G~_j
is I / gamma_j beyond the span of its pairs, so that with orthonormal columns Q of the span of all of them,

    G = c (I - Q Q') + Q K Q',   c = sum_j W_j / gamma_j,   K = Q'G Q,
    S = sqrt(c) (I - Q Q') + Q L Q',   L L' = K,   S S' = G.

Products then cost two small ones with Q, and noise one normal vector, where the sum over j would take one for each.
Averages of vectors G~_j g_j, or of factors S~_j, in place of averages of matrices, are other algorithms.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandgap.inference.stochastic_gradient.lbfgs import Factor, inverse_times
from bandgap.inference.stochastic_gradient.protocol import SHARED


@dataclass(frozen=True, eq=False)
class Metric:
    """G and its factor: c (), Q (dim, k), K and L (k, k); shared by all chains."""

    level: Tensor = field(metadata=SHARED)
    basis: Tensor = field(metadata=SHARED)
    inside: Tensor = field(metadata=SHARED)
    root: Tensor = field(metadata=SHARED)

    def times(self, v: Tensor) -> Tensor:
        """Return G v of vectors (..., dim)."""
        along = v @ self.basis
        result: Tensor = (
            self.level * v + (along @ self.inside.T - self.level * along) @ self.basis.T
        )
        return result

    def root_times(self, z: Tensor) -> Tensor:
        """Return S z of vectors (..., dim)."""
        along, level = z @ self.basis, torch.sqrt(self.level)
        result: Tensor = level * z + (along @ self.root.T - level * along) @ self.basis.T
        return result

    def solve_root(self, v: Tensor) -> Tensor:
        """Return S^-1 v of vectors (..., dim)."""
        along = v @ self.basis
        inside = torch.linalg.solve_triangular(self.root, along.unsqueeze(-1), upper=False).squeeze(
            -1
        )
        scale = torch.rsqrt(self.level)
        result: Tensor = scale * v + (inside - scale * along) @ self.basis.T
        return result


def identity_metric(like: Tensor, *, scale: float) -> Metric:
    """Return scale I for positions like (chain, dim)."""
    empty = like.new_zeros(0, 0)
    return Metric(like.new_tensor(scale), like.new_zeros(like.shape[-1], 0), empty, empty)


def mixture(factors: Factor, weights: Tensor, *, first: float, first_scale: float) -> Metric:
    """Return first first_scale I + sum_j W_j times the mean over chains of G~_jc, from factors (J, chain, M, dim).

    `weights` (J,) and `first`, the weight of the identity, sum to 1. Snapshots of weight 0 take no part.
    """
    used = weights > 0
    s, ybar, gamma = factors.s[used], factors.ybar[used], factors.gamma[used]
    each = (weights[used] / gamma.shape[1])[:, None].expand_as(gamma)
    level = first * first_scale + (each / gamma).sum()
    basis = _span(torch.cat([s, ybar], -2).flatten(0, -2))
    inside = torch.zeros(basis.shape[1], basis.shape[1], dtype=torch.float64, device=basis.device)
    for j in range(s.shape[0]):
        one = Factor(*(part[used][j].unsqueeze(1) for part in (factors.s, factors.ybar, factors.q)),
                     *(part[used][j].unsqueeze(1) for part in (factors.sy, factors.gamma, factors.damped)))  # fmt: skip
        products = inverse_times(one, basis.T).double()  # (chain, k, dim)
        inside += (each[j].double()[:, None, None] * (products @ basis.double())).sum(0)
    inside += (
        first * first_scale * torch.eye(basis.shape[1], dtype=torch.float64, device=basis.device)
    )
    inside = 0.5 * (inside + inside.T)
    root = torch.linalg.cholesky(inside)
    return Metric(level, basis, inside.to(basis.dtype), root.to(basis.dtype))


def _span(vectors: Tensor) -> Tensor:
    """Return orthonormal columns (dim, k) whose span holds the rows of `vectors` (m, dim)."""
    present = vectors[vectors.square().sum(-1) > 0]
    if not len(present):
        return vectors.new_zeros(vectors.shape[-1], 0)
    scaled = (present / present.norm(dim=-1, keepdim=True)).double().T
    u, singular, _ = torch.linalg.svd(scaled, full_matrices=False)
    basis: Tensor = u[:, singular > 1e-10 * singular[0]].to(vectors.dtype).contiguous()
    return basis
