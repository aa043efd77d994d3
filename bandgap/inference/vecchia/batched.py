"""The Vecchia likelihood as batched tensors in double precision, on a processor or a graphics card.

What `site_kernels` does by loops, for many sites at once. Sites with fewer neighbours are padded in front by dummies,
identity rows in B and zeros elsewhere: they change nothing. The data lie on the device; a pass sends places of sites
there and brings sums back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.vecchia.correlation import correlations, log_slopes
from bandgap.inference.vecchia.likelihood import (
    N_THETA,
    Blocks,
    SentByFields,
    Terms,
    Theta,
    check_theta,
)
from bandgap.inference.vecchia.ordering import Floats, Ints

ENTRIES_AT_ONCE: Final = {
    "cpu": 2**17,
    "cuda": 2**24,
}  # of all B: what a processor's cache and a card's memory hold
KEPT_BYTES: Final = {"cpu": 2**28, "cuda": 2**30}  # of distances up to which they are computed once
JITTER = 1e-8
BY_DIFFERENCES: Final = (
    "donot_use_mm_for_euclid_dist"  # of coordinates: distances through products lose digits
)


class Table(NamedTuple):
    """All sites on the device; `members` are a site's neighbours and, last, itself, -1 in front where there are fewer.

    `distances` of all members (n, s, s) are kept where they take no more than `KEPT_BYTES`, else there are no rows.
    """

    points: Tensor  # (n, q)
    y: Tensor  # (n,)
    covariates: Tensor  # (n, p)
    members: Tensor  # (n, s)
    distances: Tensor


class Matrices(NamedTuple):
    """Of sites (b,) with s = m + 1 rows each, the site itself last: distances, who is a dummy, y and covariates."""

    distances: Tensor  # (b, s, s)
    dummies: Tensor  # (b, s)
    v: Tensor  # (b, s)
    rows: Tensor  # (b, s, p)


class Sums(NamedTuple):
    """Gradients of each site by log theta and beta; of all: log p, p1, p2 and jitters, Fisher information, p3, p4."""

    each: Tensor  # (b, 4 + p)
    scalars: Tensor  # (4,)
    fisher: Tensor  # (4, 4)
    p3: Tensor  # (p,)
    p4: Tensor  # (p, p)


@dataclass(frozen=True, eq=False)
class BatchedSites(SentByFields):
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
        parts = [
            torch.cat([part.each[:, :N_THETA].sum(0), *(whole.flatten() for whole in part[1:])])
            for part in self._parts(sites, theta, beta, free_nu=free_nu, derivatives=derivatives)
        ]
        sums = torch.stack(parts).sum(0).cpu().numpy()
        jitters, share = round(float(sums[2 * N_THETA - 1])), self.n / len(sites)
        ends = np.cumsum([N_THETA, 4, N_THETA**2, self.p])
        grad, scalars, fisher, p3, p4 = np.split(np.asarray(share * sums, dtype=np.float64), ends)
        p4 = p4.reshape(self.p, self.p)
        return Terms(
            loglik=float(scalars[0]),
            grad_beta=p3 - p4 @ beta,
            grad_log_theta=grad,
            fisher_log_theta=fisher.reshape(N_THETA, N_THETA),
            p1=float(scalars[1]),
            p2=float(scalars[2]),
            p3=p3,
            p4=p4,
            jitters=jitters,
        )

    def site_gradients(self, theta: Theta, beta: Floats, *, free_nu: bool = False) -> Floats:
        """Return what every site adds to the gradients by log theta and by beta, (n, 4 + p), not scaled."""
        check_theta(theta)
        parts = self._parts(np.arange(self.n), theta, beta, free_nu=free_nu, derivatives=True)
        return np.concatenate([part.each.cpu().numpy() for part in parts])

    @cached_property
    def table(self) -> Table:
        """The data on the device."""
        n, s = self.n, self.blocks.neighbours.shape[1] + 1
        members = np.concatenate([self.blocks.neighbours, np.arange(n)[:, None]], axis=1)
        order = np.argsort(members >= 0, axis=1, kind="stable")  # dummies in front
        parts = (
            self.blocks.points,
            self.blocks.y,
            self.blocks.covariates,
            np.take_along_axis(members, order, axis=1),
        )
        points, y, covariates, places = (torch.from_numpy(part).to(self.device) for part in parts)
        rows = n if 8 * n * s * s <= KEPT_BYTES[self.device.type] else 0
        kept = points.new_empty(rows, s, s)
        for some in self._chunks(np.arange(rows)):
            here = slice(some[0], some[-1] + 1)
            kept[here] = _distances(points, places[here])
        return Table(points, y, covariates, places, kept)

    def matrices(self, sites: Ints) -> Matrices:
        """Gather what belongs to `sites`."""
        table, index = (
            self.table,
            torch.from_numpy(np.asarray(sites, dtype=np.int64)).to(self.device),
        )
        members = table.members[index]
        dummies, place = members < 0, members.clamp(min=0)
        distances = (
            table.distances[index] if len(table.distances) else _distances(table.points, members)
        )
        v, rows = table.y[place], table.covariates[place]
        return Matrices(
            distances,
            dummies,
            torch.where(dummies, 0.0, v),
            torch.where(dummies[..., None], 0.0, rows),
        )

    def _parts(
        self, sites: Ints, theta: Theta, beta: Floats, *, free_nu: bool, derivatives: bool
    ) -> Iterator[Sums]:
        coefficients = torch.as_tensor(np.asarray(beta, dtype=np.float64)).to(self.device)
        for some in self._chunks(sites):
            yield _sums(
                self.matrices(some), theta, coefficients, free_nu=free_nu, derivatives=derivatives
            )

    def _chunks(self, sites: Ints) -> Iterator[Ints]:
        size = max(
            1, ENTRIES_AT_ONCE[self.device.type] // (self.blocks.neighbours.shape[1] + 1) ** 2
        )
        return (sites[i : i + size] for i in range(0, len(sites), size))


def _distances(points: Tensor, members: Tensor) -> Tensor:
    """Return distances (b, s, s) of the members (b, s) of sites; those of dummies mean nothing."""
    found = points[members.clamp(min=0)]
    return torch.cdist(found, found, compute_mode=BY_DIFFERENCES)


def covariance(block: Matrices, theta: Theta) -> Tensor:
    """Return B (b, s, s), identity rows for dummies."""
    return _covariance(block, theta, correlations(block.distances, theta.rho, theta.nu))


def real_pairs(block: Matrices) -> Tensor:
    """Return which entries (b, s, s) belong to two sites that exist."""
    return ~(block.dummies[:, :, None] | block.dummies[:, None])


def _covariance(block: Matrices, theta: Theta, correlation: Tensor) -> Tensor:
    eye = torch.eye(block.v.shape[1], dtype=block.v.dtype, device=block.v.device)
    return torch.where(real_pairs(block), theta.sigma2 * correlation + theta.tau2 * eye, eye)


def _sums(block: Matrices, theta: Theta, beta: Tensor, *, free_nu: bool, derivatives: bool) -> Sums:
    """Return what sites add, beta (p,) being on their device."""
    if derivatives:
        value, *slopes = log_slopes(block.distances, theta.rho, theta.nu, free_nu=free_nu)
    else:
        value, slopes = correlations(block.distances, theta.rho, theta.nu), []
    lower, jittered, failed = _factor(_covariance(block, theta, value), theta)
    unit = torch.zeros_like(block.v)
    unit[:, -1] = 1.0
    a = torch.linalg.solve_triangular(lower.mT, unit[..., None], upper=True)[..., 0]
    columns = [block.v - block.rows @ beta]
    if derivatives:
        moved = ((theta.sigma2 * slope @ a[..., None])[..., 0] for slope in slopes)
        columns += [*(torch.where(block.dummies, 0.0, each) for each in moved), theta.tau2 * a]
    solved = torch.linalg.solve_triangular(lower, torch.stack(columns, dim=-1), upper=False)
    e, log_a = solved[..., 0], torch.log(a[:, -1])
    last = e[:, -1]
    whole, rows = (a * block.v).sum(1), torch.einsum("bs,bsp->bp", a, block.rows)
    loglik = (-0.5 * np.log(2 * np.pi) + log_a - 0.5 * last**2).sum()
    p1 = torch.where(failed, torch.inf, -2 * log_a.sum())
    scalars = torch.stack([torch.where(failed, -torch.inf, loglik), p1, (whole**2).sum(), jittered])
    grad, fisher = e.new_zeros(len(e), N_THETA), e.new_zeros(N_THETA, N_THETA)
    if derivatives:
        m = _slopes(solved[..., 1:], unit, free_nu=free_nu)
        m_last = m[:, -1]
        inner = torch.einsum("bsj,bs->bj", m[:, :-1], e[:, :-1])
        grad = -0.5 * m_last + last[:, None] * (inner + 0.5 * m_last * last[:, None])
        fisher = torch.einsum("bsj,bsl->jl", m[:, :-1], m[:, :-1]) + 0.5 * m_last.mT @ m_last
    each = torch.cat([grad, rows * (whole - rows @ beta)[:, None]], dim=1)
    return Sums(each, scalars, fisher, rows.mT @ whole, rows.mT @ rows)


def _factor(b: Tensor, theta: Theta) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of B, how many needed the jitter, and whether one has no factor even so (identity there)."""
    lower, info = torch.linalg.cholesky_ex(b)
    bad = info > 0
    failed = torch.zeros_like(bad)
    if bad.any():
        eye = torch.eye(b.shape[-1], dtype=b.dtype, device=b.device)
        lower, info = torch.linalg.cholesky_ex(b + bad[:, None, None] * JITTER * theta.sigma2 * eye)
        failed = info > 0
        lower = torch.where(failed[:, None, None], eye, lower)
    return lower, bad.sum().to(b.dtype), failed.any()


def _slopes(solved: Tensor, unit: Tensor, *, free_nu: bool) -> Tensor:
    """Return L^-1 dB_j a (b, s, 4) by log theta, of those by range, smoothness where it is free, and nugget.

    dB_sigma2 a = L_kk e_k - dB_tau2 a, as B a = L_kk e_k.
    """
    nugget = solved[..., -1]
    nu = solved[..., 1] if free_nu else torch.zeros_like(nugget)
    return torch.stack([unit - nugget, solved[..., 0], nu, nugget], dim=-1)
