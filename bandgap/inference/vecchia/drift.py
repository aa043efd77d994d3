r"""The drift of a metric that moves with the state: Gamma_i = -sum_k [F^-1 (dF / d eta_k) F^-1]_ik.

    dF_jl/dk = sum over sites (+B, -A) of tr(B^-1 B_jk B^-1 B_l) / 2 + tr(B^-1 B_j B^-1 B_lk) / 2
               - tr(B^-1 B_k B^-1 B_j B^-1 B_l)

A is B without the site itself; all derivatives are on the log scale (equation 4.32 with its lost terms).
"""

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.vecchia.batched import BatchedSites, Matrices, covariance, real_pairs
from bandgap.inference.vecchia.correlation import matern_derivatives
from bandgap.inference.vecchia.likelihood import N_THETA, Theta
from bandgap.inference.vecchia.ordering import Floats, Ints


def metric_slopes(sites: BatchedSites, index: Ints | None, theta: Theta) -> Floats:
    """Return dF_jl / d eta_k, (4, 4, 4) with k last, of the sites `index`, scaled by n / batch."""
    places = np.arange(sites.n) if index is None else index
    block = sites.matrices(places)
    b, first, second = covariance(block, theta), _first(block, theta), _second(block, theta)
    total = _traces(b, first, second) - _traces(b[:, :-1, :-1], first[..., :-1, :-1], second[..., :-1, :-1])
    return np.asarray((sites.n / len(places) * total).cpu().numpy(), dtype=np.float64)


def drift(precision: Floats, slopes: Floats) -> Floats:
    """Return Gamma (k,) for a metric (k, k) with slopes (k, k, k); what the prior adds to both belongs in them."""
    inverse = np.linalg.inv(precision)
    result: Floats = -np.einsum("ij,jlk,lk->i", inverse, slopes, inverse)
    return result


def _traces(b: Tensor, first: Tensor, second: Tensor) -> Tensor:
    if b.shape[-1] == 0:
        return torch.zeros(N_THETA, N_THETA, N_THETA, dtype=b.dtype, device=b.device)
    inverse = torch.linalg.inv(b)[:, None]
    p, q = inverse @ first, inverse[:, None] @ second
    bent = 0.5 * torch.einsum("bjkst,blts->jlk", q, p)
    return bent + bent.transpose(0, 1) - torch.einsum("bkst,bjtu,blus->jlk", p, p, p)


def _first(block: Matrices, theta: Theta) -> Tensor:
    """Return the derivatives (b, 4, s, s) of B by log theta."""
    found = matern_derivatives(block.distances, theta.rho, theta.nu)
    eye = torch.eye(block.v.shape[1], dtype=block.v.dtype, device=block.v.device).expand_as(found.value)
    parts = (
        theta.sigma2 * found.value,
        theta.sigma2 * theta.rho * found.rho,
        theta.sigma2 * theta.nu * found.nu,
        theta.tau2 * eye,
    )
    return torch.stack([torch.where(real_pairs(block), part, 0.0) for part in parts], dim=1)


def _second(block: Matrices, theta: Theta) -> Tensor:
    """Return the second derivatives (b, 4, 4, s, s) of B by log theta."""
    found = matern_derivatives(block.distances, theta.rho, theta.nu)
    first = _first(block, theta)
    result = torch.zeros(first.shape[0], N_THETA, *first.shape[1:], dtype=first.dtype, device=first.device)
    real, rho, nu = real_pairs(block), theta.rho, theta.nu
    curved = {
        (1, 1): rho**2 * found.rho_rho + rho * found.rho,
        (1, 2): rho * nu * found.rho_nu,
        (2, 2): nu**2 * found.nu_nu + nu * found.nu,
    }
    for j in range(3):
        result[:, 0, j] = result[:, j, 0] = first[:, j]
    for (j, k), part in curved.items():
        result[:, j, k] = result[:, k, j] = torch.where(real, theta.sigma2 * part, 0.0)
    result[:, 3, 3] = first[:, 3]
    return result
