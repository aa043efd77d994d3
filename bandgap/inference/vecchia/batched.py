"""The Vecchia likelihood as batched tensors: what `site_kernels` does by loops, for a graphics card.

Sites with fewer neighbours are padded in front by dummies, identity rows in B and zeros elsewhere: they change nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.vecchia.correlation import correlations, log_slopes
from bandgap.inference.vecchia.likelihood import N_THETA, Blocks, Terms, Theta, check_theta
from bandgap.inference.vecchia.ordering import Floats, Ints

SITES_AT_ONCE = 4096
JITTER = 1e-8


class Matrices(NamedTuple):
    """Of sites (b,) with s = m + 1 rows each, the site itself last: distances, who is a dummy, y and covariates."""

    distances: Tensor  # (b, s, s)
    dummies: Tensor  # (b, s)
    v: Tensor  # (b, s)
    rows: Tensor  # (b, s, p)


@dataclass(frozen=True, eq=False)
class BatchedSites:
    """Sites of a Vecchia likelihood on a torch device, in double precision."""

    blocks: Blocks
    device: torch.device

    @property
    def n(self) -> int:
        """Number of sites."""
        return self.blocks.n

    @property
    def p(self) -> int:
        """Number of covariates."""
        return self.blocks.p

    def terms(
        self,
        index: Ints | None,
        theta: Theta,
        beta: Floats,
        *,
        free_nu: bool = False,
        derivatives: bool = True,
    ) -> Terms:
        """Return the terms of the sites `index` (batch,), None for all, as `Blocks.terms` does."""
        check_theta(theta)
        sites = np.arange(self.n) if index is None else np.asarray(index, dtype=np.int64)
        share = self.n / len(sites)
        parts = self._parts(sites, theta, beta, free_nu=free_nu, derivatives=derivatives)
        sums = [(each[:, :N_THETA].sum(axis=0), *others) for each, *others in parts]
        grad, scalars, fisher, p3, p4 = (share * np.sum([part[i] for part in sums], axis=0) for i in range(5))
        return Terms(
            loglik=float(scalars[0]),
            grad_beta=p3 - p4 @ beta,
            grad_log_theta=grad,
            fisher_log_theta=fisher,
            p1=float(scalars[1]),
            p2=float(scalars[2]),
            p3=p3,
            p4=p4,
            jitters=round(float(scalars[3] / share)),
        )

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Return what every site adds to the gradients by log theta and by beta, (n, 4 + p), not scaled."""
        check_theta(theta)
        parts = self._parts(np.arange(self.n), theta, beta, free_nu=free_nu, derivatives=True)
        return np.concatenate([each for each, *_ in parts])

    def _parts(
        self, sites: Ints, theta: Theta, beta: Floats, *, free_nu: bool, derivatives: bool
    ) -> list[tuple[Floats, Floats, Floats, Floats, Floats]]:
        return [
            _sums(self.matrices(sites[i : i + SITES_AT_ONCE]), theta, beta, free_nu=free_nu, derivatives=derivatives)
            for i in range(0, len(sites), SITES_AT_ONCE)
        ]

    def matrices(self, sites: Ints) -> Matrices:
        """Gather what belongs to `sites`."""
        near = self.blocks.neighbours[sites]
        members = np.concatenate([near, sites[:, None]], axis=1)
        order = np.argsort(members >= 0, axis=1, kind="stable")  # dummies in front
        members = np.take_along_axis(members, order, axis=1)
        place = np.maximum(members, 0)
        parts = (self.blocks.points[place], self.blocks.y[place], self.blocks.covariates[place])
        points, v, rows = (torch.from_numpy(part).to(self.device) for part in parts)
        dummies = torch.from_numpy(members < 0).to(self.device)
        distances = torch.linalg.vector_norm(points[:, :, None] - points[:, None], dim=-1)
        v, rows = torch.where(dummies, 0.0, v), torch.where(dummies[..., None], 0.0, rows)
        return Matrices(distances, dummies, v, rows)


def covariance(block: Matrices, theta: Theta) -> Tensor:
    """Return B (b, s, s), identity rows for dummies."""
    eye = torch.eye(block.v.shape[1], dtype=block.v.dtype, device=block.v.device)
    whole = theta.sigma2 * correlations(block.distances, theta.rho, theta.nu) + theta.tau2 * eye
    return torch.where(real_pairs(block), whole, eye)


def real_pairs(block: Matrices) -> Tensor:
    """Return which entries (b, s, s) belong to two sites that exist."""
    return ~(block.dummies[:, :, None] | block.dummies[:, None])


def _sums(
    block: Matrices, theta: Theta, beta: Floats, *, free_nu: bool, derivatives: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return gradients of every site by log theta and beta (b, 4 + p), scalars (4,), Fisher information, p3 and p4."""
    b = covariance(block, theta)
    lower, info = torch.linalg.cholesky_ex(b)
    bad = info > 0
    if bad.any():
        eye = torch.eye(b.shape[-1], dtype=b.dtype, device=b.device)
        lower = torch.linalg.cholesky(b + bad[:, None, None] * JITTER * theta.sigma2 * eye)
    unit = torch.zeros_like(block.v)
    unit[:, -1] = 1.0
    a = torch.linalg.solve_triangular(lower.mT, unit[..., None], upper=True)[..., 0]
    coefficients = torch.as_tensor(beta, dtype=b.dtype, device=b.device)
    e = torch.linalg.solve_triangular(lower, (block.v - block.rows @ coefficients)[..., None], upper=False)[..., 0]
    whole, rows = (a * block.v).sum(1), torch.einsum("bs,bsp->bp", a, block.rows)
    log_a, last = torch.log(a[:, -1]), e[:, -1]
    loglik = (-0.5 * np.log(2 * np.pi) + log_a - 0.5 * last**2).sum()
    scalars = torch.stack([loglik, -2 * log_a.sum(), (whole**2).sum(), bad.sum().to(b.dtype)])
    grad, fisher = torch.zeros_like(block.v[:, :1]).expand(-1, N_THETA), torch.zeros(N_THETA, N_THETA)
    if derivatives:
        products = _slopes(block, theta, a, free_nu=free_nu)
        m = torch.linalg.solve_triangular(lower, products, upper=False)  # (b, s, 4)
        m_last = m[:, -1]
        inner = torch.einsum("bsj,bs->bj", m[:, :-1], e[:, :-1])
        grad = -0.5 * m_last + last[:, None] * (inner + 0.5 * m_last * last[:, None])
        fisher = torch.einsum("bsj,bsl->jl", m[:, :-1], m[:, :-1]) + 0.5 * m_last.mT @ m_last
    each = torch.cat([grad, rows * (whole - rows @ coefficients)[:, None]], dim=1)
    found = (each, scalars, fisher, rows.mT @ whole, rows.mT @ rows)
    each_, scalars_, fisher_, p3, p4 = (np.asarray(part.cpu().double().numpy()) for part in found)
    return each_, scalars_, fisher_, p3, p4


def _slopes(block: Matrices, theta: Theta, a: Tensor, *, free_nu: bool) -> Tensor:
    """Return dB_j a (b, s, 4) by log theta."""
    real, found = real_pairs(block), log_slopes(block.distances, theta.rho, theta.nu, free_nu=free_nu)
    parts = [torch.where(real, theta.sigma2 * part, 0.0) @ a[..., None] for part in found]
    if not free_nu:
        parts.append(torch.zeros_like(a)[..., None])
    nugget = theta.tau2 * torch.where(block.dummies, 0.0, a)[..., None]
    return torch.cat([*parts, nugget], dim=-1)
