"""Vecchia's likelihood of many fields on one grid, an axis of tensors (an independent computation).

    Y(s) = x(s)'beta + Z(s) + e,     Cov Z = sigma2 M(distance / rho),     e ~ N(0, tau2)

with the Matern correlation M of smoothness nu. Every field has its own covariates, observations
and parameters eta = log(sigma2, rho, nu, tau2). All fields use the same batch of sites. Sums over a
batch are scaled by n / batch. Formulas are those of Abba (2023), section 4.3, in the form of
`bandgap.research.vecchia.kernels` and `drift`, which the tests compare.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.research.vecchia.ordering import earlier_neighbours, site_order

Floats = NDArray[np.float64]

N_ETA = 4
# The trapezoid rule for K_nu; its relative error is 3e-8 for 0.02 <= x and nu <= 15.
NODES: Final = torch.arange(0.0, 9.2, 0.2, dtype=torch.float64)
NOWHERE: Final = 1e9  # distance of a site from the dummies that replace missing neighbours
CHUNK = 60_000  # sites times fields whose matrices are in memory together


@dataclass(frozen=True, eq=False)
class Grid:
    """Sites in the order of the likelihood.

    Attributes
    ----------
    points
        Coordinates, (n, 2).
    members
        Neighbours of every site and the site itself, last, (n, s); n for a dummy.
    pairs
        Places in `distances` of all pairs of members, (n, s, s).
    distances
        Distinct distances, (u,).
    """

    points: Floats
    members: Tensor
    pairs: Tensor
    distances: Tensor


def grid_of(nx: int, ny: int, *, neighbours: int) -> Grid:
    """Return a grid of spacing 1 in max-min order."""
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    sites: Floats = np.column_stack([x.ravel(), y.ravel()]).astype(np.float64)
    points = sites[site_order(sites, "max-min")]
    n = len(points)
    nearest = earlier_neighbours(points, neighbours)[:, ::-1]
    members = np.concatenate([np.where(nearest < 0, n, nearest), np.arange(n)[:, None]], 1)
    extended = np.concatenate([points, np.zeros((1, 2))])[members]  # (n, s, 2)
    squares = ((extended[:, :, None] - extended[:, None]) ** 2).sum(-1)
    dummy = members == n
    squares[dummy[:, :, None] | dummy[:, None]] = NOWHERE**2
    squares[:, np.arange(members.shape[1]), np.arange(members.shape[1])] = 0.0
    distinct, places = np.unique(squares, return_inverse=True)
    return Grid(
        points,
        torch.from_numpy(members),
        torch.from_numpy(places.reshape(squares.shape)),
        torch.from_numpy(np.sqrt(distinct)),
    )


@dataclass(frozen=True, eq=False)
class Fields:
    """Observations (field, n) and covariates (field, n, p) at the sites of a grid."""

    grid: Grid
    y: Tensor
    covariates: Tensor

    @property
    def n(self) -> int:
        """Number of sites."""
        return int(self.y.shape[1])

    def least_squares(self) -> tuple[Tensor, Tensor]:
        """Return beta (field, p) and the variance of its residuals (field,)."""
        beta = torch.linalg.lstsq(self.covariates, self.y[..., None]).solution
        residuals = self.y - (self.covariates @ beta)[..., 0]
        return beta[..., 0], residuals.var(1)


@dataclass(frozen=True, eq=False)
class Correlations:
    """M and its derivatives by (log rho, log nu) at distances, (field, u) each.

    `bends` are the second derivatives by rho twice, by both, and by nu twice.
    """

    value: Tensor
    slopes: tuple[Tensor, Tensor]
    bends: tuple[Tensor, Tensor, Tensor]


def correlations(distances: Tensor, rho: Tensor, nu: Tensor) -> Correlations:
    """Return the Matern correlation of every field (field,) at distances (u,).

    K_nu(x) is the integral of exp(-x cosh t) cosh(nu t) over t > 0; its derivatives by nu have t
    sinh(nu t) and t^2 cosh(nu t). All integrals are one product of matrices.
    """
    apart = distances > 0
    x = torch.where(apart, distances, 1.0) / rho[:, None]  # (field, u)
    decay = torch.exp(-x[..., None] * torch.cosh(NODES))
    steps = torch.full_like(NODES, 0.2)
    steps[0] = 0.1
    order = nu[:, None]
    columns = [
        torch.cosh(order * NODES),
        torch.cosh((order - 1) * NODES),
        torch.cosh((order - 2) * NODES),
        NODES * torch.sinh(order * NODES),
        NODES * torch.sinh((order - 1) * NODES),
        NODES**2 * torch.cosh(order * NODES),
    ]
    weights = steps[:, None] * torch.stack(columns, -1)  # (field, t, 6)
    factor = (1 - order) * math.log(2.0) - torch.lgamma(order) + order * torch.log(x)
    integrals = torch.exp(factor)[..., None] * (decay @ weights)
    k0, k1, k2, slope, slope1, bend = integrals.unbind(-1)
    a = torch.log(x / 2) - torch.digamma(order)
    by_rho = x * k1
    by_nu = order * (a * k0 + slope)
    second_nu = (a**2 - torch.polygamma(1, order)) * k0 + 2 * a * slope + bend
    values = (
        k0,
        by_rho,
        by_nu,
        x**2 * k2 - 2 * by_rho,
        order * x * (a * k1 + slope1),
        order**2 * second_nu + by_nu,
    )
    inside = [torch.where(x > 650.0, 0.0, value) for value in values]
    ends = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    m, rho1, nu1, rho2, both, nu2 = (
        torch.where(apart, value, end) for value, end in zip(inside, ends, strict=True)
    )
    return Correlations(m, (rho1, nu1), (rho2, both, nu2))


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over a batch at eta, as functions of beta, scaled by n / batch.

    Attributes
    ----------
    e_y, e_rows
        L^-1 y (field, b, s) and L^-1 X (field, b, s, p).
    log_precision
        Sum of log a_k over sites, (field,).
    w
        L^-1 (dB_j a), (field, b, s, 4); None without derivatives.
    p3, p4
        X'S^-1 y (field, p) and X'S^-1 X (field, p, p) of the likelihood.
    fisher
        Fisher information of eta, (field, 4, 4); None without derivatives.
    drift_slopes
        dF_jl / d eta_k, (field, j, l, k); None unless asked for.
    scale
        n / batch.
    """

    e_y: Tensor
    e_rows: Tensor
    log_precision: Tensor
    w: Tensor | None
    p3: Tensor
    p4: Tensor
    fisher: Tensor | None
    drift_slopes: Tensor | None
    scale: float

    def value(self, beta: Tensor) -> Tensor:
        """Return the log likelihood (field,) up to a constant."""
        last = self.e_y[..., -1] - (self.e_rows[..., -1, :] @ beta[..., None])[..., 0]
        return self.scale * (self.log_precision - 0.5 * last.square().sum(1))

    def gradient(self, beta: Tensor) -> Tensor:
        """Return the gradient of the log likelihood by eta, (field, 4)."""
        assert self.w is not None
        e = self.e_y - (self.e_rows @ beta[:, None, :, None])[..., 0]
        last = e[..., -1:]
        d = self.w[..., -1, :]
        inner = (e[..., None, :-1] @ self.w[..., :-1, :])[..., 0, :]
        return self.scale * (-0.5 * d + last * (inner + 0.5 * d * last)).sum(1)

    def gradient_beta(self, beta: Tensor) -> Tensor:
        """Return the gradient by beta, (field, p)."""
        return self.p3 - (self.p4 @ beta[..., None])[..., 0]


def sums(
    fields: Fields,
    eta: Tensor,
    index: Tensor,
    *,
    derivatives: bool = True,
    drift: bool = False,
    scale: float | None = None,
) -> Sums:
    """Return the sums at eta (field, 4) over the sites `index` (b,).

    Fields whose covariance has no Cholesky factor get NaN.
    """
    grid = fields.grid
    sigma2, rho, nu, tau2 = eta.exp().unbind(-1)
    used, places = torch.unique(grid.pairs[index], return_inverse=True)
    of_distance = correlations(grid.distances[used], rho, nu)
    s = grid.members.shape[1]
    eye = torch.eye(s, dtype=torch.float64)

    def scaled(values: Tensor) -> Tensor:
        return (sigma2[:, None] * values)[:, places]  # (field, b, s, s)

    covariance = scaled(of_distance.value)
    covariance.diagonal(dim1=-2, dim2=-1).add_(tau2[:, None, None])
    lower, failed = torch.linalg.cholesky_ex(covariance)
    lower = torch.where((failed > 0)[..., None, None], torch.nan, lower)
    inverse = torch.linalg.solve_triangular(lower, eye.expand_as(lower), upper=False)
    members = grid.members[index]
    y = torch.nn.functional.pad(fields.y, (0, 1))[:, members]
    rows = torch.nn.functional.pad(fields.covariates, (0, 0, 0, 1))[:, members]
    e_y = (inverse @ y[..., None])[..., 0]
    e_rows = inverse @ rows
    a = inverse[..., -1, :]
    times = fields.n / len(index) if scale is None else scale
    ends = e_rows[..., -1, :]
    p3 = times * (ends * e_y[..., -1:]).sum(1)
    p4 = times * ends.mT @ ends
    log_precision = torch.log(a[..., -1]).sum(1)
    if not derivatives:
        return Sums(e_y, e_rows, log_precision, None, p3, p4, None, None, times)
    last = torch.zeros_like(a)
    last[..., -1] = lower[..., -1, -1]
    by_tau2 = tau2[:, None, None] * a
    slopes = [scaled(values) for values in of_distance.slopes]
    turned = torch.stack(
        [last - by_tau2, *[(slope @ a[..., None])[..., 0] for slope in slopes], by_tau2], -1
    )  # B_j a, (field, b, s, 4)
    w = inverse @ turned
    c = w[..., :-1, :]
    d = w[..., -1, :]
    fisher = times * ((c.mT @ c).sum(1) + 0.5 * d.mT @ d)
    result = Sums(e_y, e_rows, log_precision, w, p3, p4, fisher, None, times)
    if not drift:
        return result
    bends = [(scaled(values) @ a[..., None])[..., 0] for values in of_distance.bends]
    moved = (inverse[..., :-1, :].mT @ c).contiguous()  # L^-T (c, 0), (field, b, s, 4)
    products = [
        covariance @ moved - tau2[:, None, None, None] * moved,
        *[slope @ moved for slope in slopes],
        tau2[:, None, None, None] * moved,
    ]
    slopes_of_fisher = _slopes(a, turned, bends, c, d, moved, products)
    return Sums(e_y, e_rows, log_precision, w, p3, p4, fisher, times * slopes_of_fisher, times)


def _slopes(
    a: Tensor,
    turned: Tensor,
    bends: list[Tensor],
    c: Tensor,
    d: Tensor,
    moved: Tensor,
    products: list[Tensor],
) -> Tensor:
    """Return dF_jl / d eta_k, (field, j, l, k), as derived in `bandgap.research.vecchia.drift`."""
    second = turned.new_zeros(*turned.shape, N_ETA)  # B_jk a, (field, b, s, j, k)
    second[..., 0, :3] = turned[..., :3]
    second[..., :3, 0] = turned[..., :3]
    second[..., 3, 3] = turned[..., 3]
    second[..., 1, 1] = bends[0]
    second[..., 1, 2] = second[..., 2, 1] = bends[1]
    second[..., 2, 2] = bends[2]
    sides = 2.0 * moved + a[..., None] * d[..., None, :]
    bent = 0.5 * torch.einsum("fbsjk,fbsl->fjlk", second, sides)
    squares = c.mT @ c  # (field, b, 4, 4)
    inner = torch.einsum("fbk,fbjl->fkjl", d, squares)
    across = torch.stack([(moved.mT @ product).sum(1) for product in products], 2)  # k, j, l
    cubic = torch.einsum("fbk,fbj,fbl->fkjl", d, d, d)
    cubic += inner + inner.permute(0, 2, 1, 3) + inner.permute(0, 2, 3, 1)
    cubic += across.permute(0, 2, 1, 3) + across + across.permute(0, 1, 3, 2)
    return bent + bent.transpose(1, 2) - cubic.permute(0, 2, 3, 1)


def drift_of(fisher: Tensor, slopes: Tensor) -> Tensor:
    """Return Gamma_i = -sum_k [F^-1 (dF / d eta_k) F^-1]_ik, (field, 4)."""
    inverse = torch.linalg.inv_ex(fisher)[0]
    return -torch.einsum("fij,fjlk,flk->fi", inverse, slopes, inverse)


@dataclass(frozen=True, eq=False)
class AllSites:
    """Value, gradient by eta and Fisher information over all sites at the best beta."""

    value: Tensor
    gradient: Tensor
    fisher: Tensor
    beta: Tensor
    p4: Tensor


def all_sites(fields: Fields, eta: Tensor, *, derivatives: bool = True) -> AllSites:
    """Return the sums over all sites of every field, with beta at its best value given eta."""
    parts = torch.split(torch.arange(fields.n), max(1, CHUNK // len(eta)))
    chunks = [sums(fields, eta, index, derivatives=derivatives, scale=1.0) for index in parts]
    p4 = _total(chunks, lambda chunk: chunk.p4)
    beta = _solved(p4, _total(chunks, lambda chunk: chunk.p3))
    value = _total(chunks, lambda chunk: chunk.value(beta))
    if not derivatives:
        empty = eta.new_empty(0)
        return AllSites(value, empty, empty, beta, p4)
    gradient = _total(chunks, lambda chunk: chunk.gradient(beta))
    fisher = torch.stack([chunk.fisher for chunk in chunks if chunk.fisher is not None]).sum(0)
    return AllSites(value, gradient, fisher, beta, p4)


def _total(chunks: list[Sums], part: Callable[[Sums], Tensor]) -> Tensor:
    return torch.stack([part(chunk) for chunk in chunks]).sum(0)


def _solved(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return matrix^-1 vector for every field, NaN where the matrix is singular."""
    inverse: Tensor = torch.linalg.inv_ex(matrix)[0]
    return (inverse @ vector[..., None])[..., 0]
