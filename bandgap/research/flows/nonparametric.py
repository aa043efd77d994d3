r"""The nonparametric posterior of a flow: bootstrap weights, base measures and closed forms.

The unknown distribution F of the rows has the prior DP(alpha, F_pi), so that its posterior given n
rows is DP(alpha + n, G), G = alpha/(alpha + n) F_pi + 1/(alpha + n) sum_i delta(y_i) (Lyddon et al.
2018; Fong et al. 2019; Ott 2022, section 4). A draw of F has the n rows and m pseudo-observations
of F_pi as atoms, with weights from Dirichlet(1, ..., 1, alpha/m, ..., alpha/m), and a draw of the
parameters minimises the loss under these weights. With alpha = 0 this is the weighted likelihood
bootstrap.

The base density of the flow is N(mu, I). For a flow with fixed parameters a draw of mu is the
weighted mean of the atoms in the base space (Ott 2022, algorithm 3), so that mean and covariance of
mu over draws have closed forms.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

LOG_2_PI = math.log(2 * math.pi)


def weighted_loss(u: Tensor, log_det: Tensor, weights: Tensor) -> Tensor:
    """Return the loss of every flow, (E,): the weighted negative log-likelihood with mu profiled.

    mu is the weighted mean of the rows in the base space (E, n, D). It is the minimiser, so that it
    is held fixed in the gradient (algorithm 3).
    """
    mu = (weights[:, :, None] * u).sum(1, keepdim=True).detach()
    half_squares = 0.5 * ((u - mu) ** 2).sum(-1)
    constant = 0.5 * u.shape[-1] * LOG_2_PI
    return (weights * (half_squares + constant - log_det)).sum(1)


def log_density(u: Tensor, log_det: Tensor, mean: Tensor, covariance: Tensor | None) -> Tensor:
    """Return log p(x) (E, n) for the base N(mean, covariance), means (E, D).

    `covariance` (E, D, D) is I without one.
    """
    centred = u - mean[:, None, :]
    constant = 0.5 * u.shape[-1] * LOG_2_PI
    if covariance is None:
        return log_det - 0.5 * (centred**2).sum(-1) - constant
    factor = torch.linalg.cholesky(covariance)
    scaled = torch.linalg.solve_triangular(factor, centred.transpose(1, 2), upper=False)
    log_volume = torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1)
    averaged: Tensor = log_det - 0.5 * (scaled**2).sum(1) - log_volume[:, None] - constant
    return averaged


@dataclass(frozen=True, eq=False)
class BasePosterior:
    """Mean (E, D) and covariance (E, D, D) of the base's mean mu over draws of the posterior."""

    mean: Tensor
    covariance: Tensor

    def log_density(self, u: Tensor, log_det: Tensor) -> Tensor:
        """Return the log (E, n) of the density averaged over mu: the base is N(mean, I + C)."""
        identity = torch.eye(u.shape[-1], dtype=u.dtype)
        return log_density(u, log_det, self.mean, identity + self.covariance)


def base_posterior(u: Tensor, is_row: Tensor, pseudo: Tensor, *, alpha: float) -> BasePosterior:
    """Return mean and covariance of mu in closed form.

    With A = n + alpha, the mixture's mean and covariance S in the base space and the covariance
    S_pi of the pseudo-observations there,

        Cov(mu) = S / (A + 1) + alpha^2 / (A^2 m) S_pi (1 - 1/(A + 1)).

    The second term is that of the m drawn atoms.

    Parameters
    ----------
    u
        Rows in the base space (E, n, D).
    is_row
        Whether a flow was fitted to a row, (E, n).
    pseudo
        Pseudo-observations in the base space (E, m, D); m may be 0.
    alpha
        Concentration of the base measure.
    """
    counts = is_row.to(u.dtype)
    n = counts.sum(1)
    total = n + alpha
    m = pseudo.shape[1]
    weights = counts / total[:, None]
    mean = (weights[:, :, None] * u).sum(1)
    of_pseudo = alpha / total / max(m, 1)
    mean = mean + of_pseudo[:, None] * pseudo.sum(1)
    centred = u - mean[:, None, :]
    spread = torch.einsum("en,eni,enj->eij", weights, centred, centred)
    centred_pseudo = pseudo - mean[:, None, :]
    around_mean = torch.einsum("eni,enj->eij", centred_pseudo, centred_pseudo)
    spread = spread + of_pseudo[:, None, None] * around_mean
    covariance = spread / (total + 1)[:, None, None]
    if m:
        around_own = pseudo - pseudo.mean(1, keepdim=True)
        of_atoms = torch.einsum("eni,enj->eij", around_own, around_own) / m
        factor = alpha**2 / (total**2 * m) * (1 - 1 / (total + 1))
        covariance = covariance + factor[:, None, None] * of_atoms
    return BasePosterior(mean, covariance)
