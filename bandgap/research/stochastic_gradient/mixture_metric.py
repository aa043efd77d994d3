"""A metric G that averages many L-BFGS matrices: a scaled identity plus a low-rank part.

G_k = (1 - omega_k) G_(k-1) + omega_k G~_k is sum_j W_j G~_j with W_j = omega_j prod_(l > j) (1 -
omega_l). Every G~_j is I / gamma_j outside the span of its pairs. With orthonormal columns Q of the
span of all pairs,

    G = c (I - Q Q') + Q K Q',   c = sum_j W_j / gamma_j,   K = Q'G Q,
    S = sqrt(c) (I - Q Q') + Q L Q',   L L' = K,   S S' = G.

A product then costs two small products with Q, and noise takes one normal vector; the sum over j
would take one of each for every j. Averages of vectors G~_j g_j, or of factors S~_j, are other
algorithms.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bandgap.research.stochastic_gradient.lbfgs import Factor, inverse_times
from bandgap.research.stochastic_gradient.protocol import SHARED


@dataclass(frozen=True, eq=False)
class Metric:
    """G and its factor S: c (), Q (dim, k), K and L (k, k); shared by all chains."""

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
        along = z @ self.basis
        level = torch.sqrt(self.level)
        result: Tensor = level * z + (along @ self.root.T - level * along) @ self.basis.T
        return result


def identity_metric(like: Tensor, *, scale: float) -> Metric:
    """Return the metric scale I for positions like (chain, dim)."""
    empty = like.new_zeros(0, 0)
    return Metric(like.new_tensor(scale), like.new_zeros(like.shape[-1], 0), empty, empty)


def mixture(factors: Factor, weights: Tensor, *, first: float, first_scale: float) -> Metric:
    """Return first first_scale I + sum_j W_j times the mean over chains of G~_jc.

    `factors` are (J, chain, M, dim). `weights` (J,) and `first`, the weight of the identity, sum to
    1. Matrices of weight 0 are left out.
    """
    used = weights > 0
    fields = ("s", "ybar", "q", "sy", "gamma", "damped")
    f = Factor(**{name: getattr(factors, name)[used] for name in fields})
    weight_of_chain = (weights[used] / f.gamma.shape[1])[:, None].expand_as(f.gamma)
    level = first * first_scale + (weight_of_chain / f.gamma).sum()
    basis = _span(torch.cat([f.s, f.ybar], -2).flatten(0, -2))
    inside = torch.zeros(basis.shape[1], basis.shape[1], dtype=torch.float64, device=basis.device)
    for j in range(f.s.shape[0]):
        snapshot = Factor(**{name: getattr(f, name)[j].unsqueeze(1) for name in fields})
        products = inverse_times(snapshot, basis.T).double()  # (chain, k, dim)
        weight = weight_of_chain[j].double()[:, None, None]
        inside += (weight * (products @ basis.double())).sum(0)
    inside += (
        first * first_scale * torch.eye(basis.shape[1], dtype=torch.float64, device=basis.device)
    )
    inside = 0.5 * (inside + inside.T)
    root = torch.linalg.cholesky(inside)
    return Metric(level, basis, inside.to(basis.dtype), root.to(basis.dtype))


def _span(vectors: Tensor) -> Tensor:
    """Return orthonormal columns (dim, k) of the span of the rows of `vectors` (m, dim)."""
    present = vectors[vectors.square().sum(-1) > 0]
    if not len(present):
        return vectors.new_zeros(vectors.shape[-1], 0)
    scaled = (present / present.norm(dim=-1, keepdim=True)).double().T
    u, singular, _ = torch.linalg.svd(scaled, full_matrices=False)
    basis: Tensor = u[:, singular > 1e-10 * singular[0]].to(vectors.dtype).contiguous()
    return basis
