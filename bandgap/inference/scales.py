r"""The scales of BTL-PCP-PE: log t, log sigma and the layer weights c, with their joint prior.

t = tau / sigma^2 carries the penalized-complexity prior (its density does not involve sigma), sigma^2 ~ InvGamma(2, b),
and c = softmax(w) with w_l the logarithm of independent Gamma(c0, 1) variables, that is c ~ Dirichlet(c0, ..., c0); w
has one direction that only the prior sees, which makes it proper without any other Jacobian. A state is a tensor
(chain, 2 + L) in float64: log t, log sigma, w_1 ... w_L.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.priors import penalized_complexity as pcp

SIGMA_SHAPE = 2.0  # of the inverse gamma prior of sigma^2: its mean is then b


@dataclass(frozen=True, eq=False)
class ScalePrior:
    """Prior of (log t, log sigma, w): squared gradient norms alpha (N, L) at theta_hat, rate lam, b and c0."""

    alpha: Tensor
    lam: float
    noise_b: float
    c0: float = 1.0

    @property
    def n_layers(self) -> int:
        return self.alpha.shape[1]

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain, 2 + L), Jacobians included, up to a constant."""
        log_t, log_sigma, w = state[:, 0], state[:, 1], state[:, 2:]
        terms = pcp.point_estimate_terms(self.alpha, torch.softmax(w, -1))
        p_t = pcp.log_density(torch.exp(log_t), terms, lam=self.lam) + log_t
        p_sigma = -2.0 * SIGMA_SHAPE * log_sigma - self.noise_b * torch.exp(-2.0 * log_sigma)
        return p_t + p_sigma + (self.c0 * w - torch.exp(w)).sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 2 + L)."""
        log_t, log_sigma, w = state[:, 0], state[:, 1], state[:, 2:]
        c = torch.softmax(w, -1)
        terms = pcp.DistanceTerms(self.alpha.new_full((1,), 1.0 / self.alpha.shape[0]), c @ self.alpha.T)
        p_t, by_log_t, by_rate = pcp.log_density_and_gradient(torch.exp(log_t), terms, lam=self.lam)
        by_c = by_rate @ self.alpha
        noise = self.noise_b * torch.exp(-2.0 * log_sigma)
        value = p_t + log_t - 2.0 * SIGMA_SHAPE * log_sigma - noise + (self.c0 * w - torch.exp(w)).sum(-1)
        by_w = c * (by_c - (c * by_c).sum(-1, keepdim=True)) + self.c0 - torch.exp(w)
        by_scales = torch.stack([by_log_t + 1.0, 2.0 * noise - 2.0 * SIGMA_SHAPE], -1)
        return value, torch.cat([by_scales, by_w], 1)

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 2 + L) from the prior, on the CPU, with nothing but the given CPU generator."""
        w = _log_gamma(self.c0, (chains, self.n_layers), generator=generator)
        log_sigma2 = math.log(self.noise_b) - _log_gamma(SIGMA_SHAPE, (chains,), generator=generator)
        terms = pcp.point_estimate_terms(self.alpha.cpu(), torch.softmax(w, -1))
        t = pcp.prior_draws(terms, lam=self.lam, generator=generator, size=(chains,))
        return torch.cat([torch.log(t)[:, None], 0.5 * log_sigma2[:, None], w], 1)


def relative_scales(state: Tensor) -> Tensor:
    """Return s_l / sigma = sqrt(t c_l), (chain, L)."""
    return torch.exp(0.5 * (state[:, :1] + torch.log_softmax(state[:, 2:], -1)))


def with_layer_scaled(state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
    """Return states (chain, 2 + L) in which s_l of one layer (from 0) is exp(log_factor) (chain,) times what it was.

    The other scales, sigma and the sum of exp(w) stay. In the coordinates a_l = log(t c_l) and log sum exp(w), which
    have a constant Jacobian, it is a shift of one a_l: it preserves volume.
    """
    a = state[:, :1] + torch.log_softmax(state[:, 2:], -1)
    a = torch.cat([a[:, :layer], a[:, layer : layer + 1] + 2.0 * log_factor[:, None], a[:, layer + 1 :]], 1)
    w = torch.log_softmax(a, -1) + state[:, 2:].logsumexp(-1, keepdim=True)
    return torch.cat([a.logsumexp(-1, keepdim=True), state[:, 1:2], w], 1)


def sigma_of(state: Tensor) -> Tensor:
    """Return sigma, (chain,), in standardised units."""
    return torch.exp(state[:, 1])


def layer_weights(state: Tensor) -> Tensor:
    """Return c, (chain, L)."""
    return torch.softmax(state[:, 2:], -1)


def tau_of(state: Tensor) -> Tensor:
    """Return tau = t sigma^2, (chain,), in squared standardised units."""
    return torch.exp(state[:, 0] + 2.0 * state[:, 1])


def _log_gamma(shape: float, size: tuple[int, ...], *, generator: torch.Generator) -> Tensor:
    """Draw logarithms of Gamma(shape, 1) variables, exact for small shapes: G(a) has the law of G(a + 1) U^(1/a)."""
    above = torch._standard_gamma(torch.full(size, shape + 1.0, dtype=torch.float64), generator=generator)
    uniform = 1.0 - torch.rand(size, generator=generator, dtype=torch.float64)
    return torch.log(above) + torch.log(uniform) / shape
