"""Vecchia's likelihood by batched tensors in double precision, on a CPU or CUDA.

The sums are those of the loops in `kernels`. Sites with fewer neighbours are padded in front by
dummies, which are identity rows in B and zeros elsewhere and change no sum. The data are on the
device; only the places of sites and sums are transferred.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bandgap.research.vecchia.correlation import correlations, log_slopes
from bandgap.research.vecchia.likelihood import (
    N_THETA,
    Blocks,
    SentByFields,
    Terms,
    Theta,
    check_theta,
)
from bandgap.research.vecchia.ordering import Floats, Ints

# Entries of all B in a chunk: what a CPU's cache and a GPU's memory contain.
CHUNK_ENTRIES: Final = {"cpu": 2**17, "cuda": 2**24}
MAX_STORED_BYTES: Final = {"cpu": 2**28, "cuda": 2**30}  # most memory for stored distances
JITTER = 1e-8
# Distances from differences of coordinates: distances from products lose digits.
BY_DIFFERENCES: Final = "donot_use_mm_for_euclid_dist"


class Table(NamedTuple):
    """All sites on the device.

    `members` are a site's neighbours and, last, itself, with -1 in front if there are fewer.
    `distances` of all members (n, s, s) are stored if they take at most `MAX_STORED_BYTES`, else
    there are no rows.
    """

    points: Tensor  # (n, q)
    y: Tensor  # (n,)
    covariates: Tensor  # (n, p)
    members: Tensor  # (n, s)
    distances: Tensor


class Matrices(NamedTuple):
    """Data of sites (b,) with s = m + 1 members each: distances, dummies, y and covariates."""

    distances: Tensor  # (b, s, s)
    dummies: Tensor  # (b, s)
    v: Tensor  # (b, s)
    rows: Tensor  # (b, s, p)


class Sums(NamedTuple):
    """Sums over sites, and the gradients of each site.

    `scalars` are log p, p1, p2 and the number of jitters.
    """

    site_gradients: Tensor  # (b, 4 + p)
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
            torch.cat(
                [part.site_gradients[:, :N_THETA].sum(0), *(array.flatten() for array in part[1:])]
            )
            for part in self._parts(sites, theta, beta, free_nu=free_nu, derivatives=derivatives)
        ]
        sums = torch.stack(parts).sum(0).cpu().numpy()
        jitters = round(float(sums[2 * N_THETA - 1]))
        share = self.n / len(sites)
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
        """Return the gradient of every site by log theta and beta, (n, 4 + p), not scaled."""
        check_theta(theta)
        parts = self._parts(np.arange(self.n), theta, beta, free_nu=free_nu, derivatives=True)
        return np.concatenate([part.site_gradients.cpu().numpy() for part in parts])

    @cached_property
    def table(self) -> Table:
        """The data on the device."""
        n = self.n
        s = self.blocks.neighbours.shape[1] + 1
        members = np.concatenate([self.blocks.neighbours, np.arange(n)[:, None]], axis=1)
        order = np.argsort(members >= 0, axis=1, kind="stable")  # dummies in front
        parts = (
            self.blocks.points,
            self.blocks.y,
            self.blocks.covariates,
            np.take_along_axis(members, order, axis=1),
        )
        points, y, covariates, places = (torch.from_numpy(part).to(self.device) for part in parts)
        rows = n if 8 * n * s * s <= MAX_STORED_BYTES[self.device.type] else 0
        packed = points.new_empty(rows, s, s)
        for chunk in self._chunks(np.arange(rows)):
            block = slice(chunk[0], chunk[-1] + 1)
            packed[block] = _distances(points, places[block])
        return Table(points, y, covariates, places, packed)

    def matrices(self, sites: Ints) -> Matrices:
        """Return the data of `sites`."""
        table = self.table
        index = torch.from_numpy(np.asarray(sites, dtype=np.int64)).to(self.device)
        members = table.members[index]
        dummies = members < 0
        places = members.clamp(min=0)
        distances = (
            table.distances[index] if len(table.distances) else _distances(table.points, members)
        )
        v = table.y[places]
        rows = table.covariates[places]
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
        for chunk in self._chunks(sites):
            yield _sums(
                self.matrices(chunk), theta, coefficients, free_nu=free_nu, derivatives=derivatives
            )

    def _chunks(self, sites: Ints) -> Iterator[Ints]:
        size = max(1, CHUNK_ENTRIES[self.device.type] // (self.blocks.neighbours.shape[1] + 1) ** 2)
        return (sites[i : i + size] for i in range(0, len(sites), size))


def _distances(points: Tensor, members: Tensor) -> Tensor:
    """Return distances (b, s, s) of the members (b, s) of sites; those of dummies are arbitrary."""
    neighbours = points[members.clamp(min=0)]
    return torch.cdist(neighbours, neighbours, compute_mode=BY_DIFFERENCES)


def covariance(block: Matrices, theta: Theta) -> Tensor:
    """Return B (b, s, s), identity rows for dummies."""
    return _covariance(block, theta, correlations(block.distances, theta.rho, theta.nu))


def real_pairs(block: Matrices) -> Tensor:
    """Return which entries (b, s, s) belong to pairs without a dummy."""
    return ~(block.dummies[:, :, None] | block.dummies[:, None])


def _covariance(block: Matrices, theta: Theta, correlation: Tensor) -> Tensor:
    eye = torch.eye(block.v.shape[1], dtype=block.v.dtype, device=block.v.device)
    return torch.where(real_pairs(block), theta.sigma2 * correlation + theta.tau2 * eye, eye)


def _sums(block: Matrices, theta: Theta, beta: Tensor, *, free_nu: bool, derivatives: bool) -> Sums:
    """Return the sums over sites; beta (p,) is on their device."""
    if derivatives:
        value, *slopes = log_slopes(block.distances, theta.rho, theta.nu, free_nu=free_nu)
    else:
        value = correlations(block.distances, theta.rho, theta.nu)
        slopes = []
    lower, jittered, failed = _factor(_covariance(block, theta, value), theta)
    unit = torch.zeros_like(block.v)
    unit[:, -1] = 1.0
    a = torch.linalg.solve_triangular(lower.mT, unit[..., None], upper=True)[..., 0]
    columns = [block.v - block.rows @ beta]
    if derivatives:
        products = ((theta.sigma2 * slope @ a[..., None])[..., 0] for slope in slopes)
        columns += [
            *(torch.where(block.dummies, 0.0, product) for product in products),
            theta.tau2 * a,
        ]
    solved = torch.linalg.solve_triangular(lower, torch.stack(columns, dim=-1), upper=False)
    e = solved[..., 0]
    log_a = torch.log(a[:, -1])
    last = e[:, -1]
    response = (a * block.v).sum(1)
    rows = torch.einsum("bs,bsp->bp", a, block.rows)
    loglik = (-0.5 * np.log(2 * np.pi) + log_a - 0.5 * last**2).sum()
    p1 = torch.where(failed, torch.inf, -2 * log_a.sum())
    scalars = torch.stack(
        [torch.where(failed, -torch.inf, loglik), p1, (response**2).sum(), jittered]
    )
    grad = e.new_zeros(len(e), N_THETA)
    fisher = e.new_zeros(N_THETA, N_THETA)
    if derivatives:
        m = _slopes(solved[..., 1:], unit, free_nu=free_nu)
        m_last = m[:, -1]
        inner = torch.einsum("bsj,bs->bj", m[:, :-1], e[:, :-1])
        grad = -0.5 * m_last + last[:, None] * (inner + 0.5 * m_last * last[:, None])
        fisher = torch.einsum("bsj,bsl->jl", m[:, :-1], m[:, :-1]) + 0.5 * m_last.mT @ m_last
    site_gradients = torch.cat([grad, rows * (response - rows @ beta)[:, None]], dim=1)
    return Sums(site_gradients, scalars, fisher, rows.mT @ response, rows.mT @ rows)


def _factor(b: Tensor, theta: Theta) -> tuple[Tensor, Tensor, Tensor]:
    """Return the factors of B, the number that needed the jitter, and whether any has no factor.

    A factor that does not exist is the identity.
    """
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
    """Return L^-1 dB_j a (b, s, 4) from those by range, smoothness (if free) and nugget.

    B a = L_kk e_k, so dB_sigma2 a = L_kk e_k - dB_tau2 a.
    """
    nugget = solved[..., -1]
    nu = solved[..., 1] if free_nu else torch.zeros_like(nugget)
    return torch.stack([unit - nugget, solved[..., 0], nu, nugget], dim=-1)
