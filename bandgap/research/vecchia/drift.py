r"""The drift of a metric that depends on the state: Gamma_i = -sum_k [F^-1 (dF / d eta_k) F^-1]_ik.

    dF_jl/dk = sum over sites (+B, -A) of tr(B^-1 B_jk B^-1 B_l) / 2 + tr(B^-1 B_j B^-1 B_lk) / 2
               - tr(B^-1 B_k B^-1 B_j B^-1 B_l)

A is B without its last row, the site itself. All derivatives are on the log scale (equation 4.32
with the terms that are missing there). Let B = L L'. The leading block of L is the factor of A, so
the difference of each trace contains only terms with the last row of N_j = L^-1 B_j L^-T. With a =
L^-T e_last, N_j e_last = (c_j, d_j) and w_j = L^-T (c_j, 0),

    tr(N_jk N_l)    -> a' B_jk (2 w_l + d_l a)
    tr(N_k N_j N_l) -> d_k d_j d_l + d_k c_j'c_l + d_j c_k'c_l + d_l c_k'c_j
                       + w_j'B_k w_l + w_k'B_j w_l + w_k'B_l w_j
"""

import numpy as np
import torch
from torch import Tensor

from bandgap.research.vecchia.batched import BatchedSites, Matrices, covariance, real_pairs
from bandgap.research.vecchia.correlation import log_bends, log_slopes
from bandgap.research.vecchia.likelihood import Theta
from bandgap.research.vecchia.ordering import Floats, Ints


def metric_slopes(
    sites: BatchedSites, index: Ints | None, theta: Theta, *, free_nu: bool
) -> Floats:
    """Return dF_jl / d eta_k, (k, k, k) with k last, of the sites `index`, scaled by n / batch.

    Parameters are all four, or without `free_nu` sigma2, rho and tau2. The slopes are NaN if a
    covariance has no Cholesky factor.
    """
    places = np.arange(sites.n) if index is None else index
    block = sites.matrices(places)
    first = _first(block, theta, free_nu=free_nu)
    lower, failed = torch.linalg.cholesky_ex(covariance(block, theta))
    if failed.any():
        return np.full((first.shape[1],) * 3, np.nan)
    last = torch.zeros_like(block.v)
    last[:, -1] = 1.0
    a = torch.linalg.solve_triangular(lower.mT, last[..., None], upper=True)  # (b, s, 1)
    turned = (first @ a[:, None])[..., 0]  # B_j a, (b, k, s)
    c = torch.linalg.solve_triangular(lower, turned.mT, upper=False)  # (b, s, k)
    d = c[:, -1].clone()  # (b, k)
    c[:, -1] = 0.0
    w = torch.linalg.solve_triangular(lower.mT, c, upper=True)  # (b, s, k)
    second = _second_times(block, theta, turned, a[..., 0], free_nu=free_nu)
    bent = 0.5 * torch.einsum("bjks,bsl->jlk", second, 2.0 * w + d[:, None] * a)
    inner = torch.einsum("bk,bsj,bsl->kjl", d, c, c)
    across = torch.einsum("bsk,bjsl->kjl", w, first @ w[:, None])  # w_k' B_j w_l
    cubic = torch.einsum("bk,bj,bl->kjl", d, d, d)
    cubic += inner + inner.permute(1, 0, 2) + inner.permute(1, 2, 0)
    cubic += across.permute(1, 0, 2) + across + across.permute(0, 2, 1)
    total = bent + bent.transpose(0, 1) - cubic.permute(1, 2, 0)
    return np.asarray((sites.n / len(places) * total).cpu().numpy(), dtype=np.float64)


def drift(precision: Floats, slopes: Floats) -> Floats:
    """Return Gamma (k,) for a metric (k, k) with slopes (k, k, k), both including the prior."""
    inverse = np.linalg.inv(precision)
    result: Floats = -np.einsum("ij,jlk,lk->i", inverse, slopes, inverse)
    return result


def _first(block: Matrices, theta: Theta, *, free_nu: bool) -> Tensor:
    """Return the derivatives (b, k, s, s) of B by log theta."""
    correlated = log_slopes(block.distances, theta.rho, theta.nu, free_nu=free_nu)
    eye = torch.eye(block.v.shape[1], dtype=block.v.dtype, device=block.v.device)
    parts = [theta.sigma2 * part for part in correlated]
    derivatives = torch.stack([*parts, theta.tau2 * eye.expand_as(parts[0])], dim=1)
    return torch.where(real_pairs(block)[:, None], derivatives, 0.0)


def _second_times(
    block: Matrices, theta: Theta, turned: Tensor, a: Tensor, *, free_nu: bool
) -> Tensor:
    """Return B_jk a (b, k, k, s), second derivatives by log theta, from B_j a (b, k, s)."""
    k = turned.shape[1]
    result = turned.new_zeros(len(turned), k, k, turned.shape[2])
    result[:, 0, :-1] = result[:, :-1, 0] = turned[:, :-1]
    result[:, -1, -1] = turned[:, -1]
    bends = log_bends(block.distances, theta.rho, theta.nu, free_nu=free_nu)
    for (i, j), bend in zip(((1, 1), (1, 2), (2, 2)), bends, strict=False):
        product = torch.where(real_pairs(block), theta.sigma2 * bend, 0.0) @ a[..., None]
        result[:, i, j] = result[:, j, i] = product[..., 0]
    return result
