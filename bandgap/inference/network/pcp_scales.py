r"""The scales of BTL-PCP: a global scale with the penalized-complexity prior, layer weights, noise.

The coordinates a_l = log(scale c_l) are the layers' parts of the global scale. What the data say of
one layer's scale concerns one of them; in log scale and log c the posterior is a bent ridge. With
c ~ Dirichlet(c0, ..., c0) their density is p(log scale) prod_l c_l^c0, where scale = sum exp(a) and
c = softmax(a), because |d(log scale, c_1 ... c_(L-1)) / da| = prod_l c_l. Two cases (Abba, 2023,
sections 2.3.3 and 2.3.2), both with states (log sigma, a_1 ... a_L) (`layer_scales`):

- point estimate: a_l = log(t c_l) with t = tau / sigma^2, whose prior does not involve sigma, and
  s_l^2 = sigma^2 exp(a_l);
- variational: a_l = log(tau c_l) and s_l^2 = 1 + exp(a_l), the scales of weights in units of their
  standard deviations at the source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network.layer_scales import LayerScales, rough_units
from bandgap.inference.network.scales import (
    SIGMA_SHAPE,
    START_LOG_SIGMA,
    Floats,
    draw_log_gamma,
    draw_log_sigma,
    noise_log_density,
)
from bandgap.priors import penalized_complexity as pcp
from bandgap.priors.row_quadrature import row_quadrature

START_RANGE = (-9.0, 1.0)  # of the log of the global scale, so that no start is absurd
MANY_ROWS = 8000  # above which `condensed` replaces the rows by a quadrature


@dataclass(frozen=True, eq=False)
class PcpScales(LayerScales):
    """Density of the states of both cases.

    The distance has weights (J,) and rates slopes @ c with slopes (J, L). `lam` is the rate of the
    distance's prior, `noise_b` is b of the noise variance's prior, `c0` the Dirichlet parameter.
    """

    slopes: Tensor
    weights: Tensor
    lam: float
    noise_b: float
    c0: float = 1.0

    @property
    def n_layers(self) -> int:
        return self.slopes.shape[1]

    @property
    def units(self) -> Tensor:
        """Rough standard deviations of the coordinates, (1 + L,)."""
        return rough_units(self.slopes)

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log density of states (chain, 1 + L), Jacobians included, up to a constant."""
        log_sigma = state[:, 0]
        log_scale = torch.logsumexp(state[:, 1:], -1)
        log_c = state[:, 1:] - log_scale[:, None]
        terms = self._terms(torch.exp(log_c))
        p_scale = pcp.log_density(torch.exp(log_scale), terms, lam=self.lam) + log_scale
        return p_scale + noise_log_density(log_sigma, self.noise_b) + self.c0 * log_c.sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 1 + L)."""
        if state.is_cuda:
            return self._torch_gradient(state)
        values, gradients = zip(*(self.plain_density(row) for row in state.numpy()), strict=True)
        return torch.tensor(values, dtype=torch.float64), torch.from_numpy(np.stack(gradients))

    def _torch_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return value and gradient by torch operations, for GPUs.

        `test_pcp_scales.py` checks that it agrees with the compiled loop of `plain_density`.
        """
        log_sigma = state[:, 0]
        log_scale = torch.logsumexp(state[:, 1:], -1)
        log_c = state[:, 1:] - log_scale[:, None]
        c = torch.exp(log_c)
        p_scale, by_log, by_rate = pcp.log_density_and_gradient(
            torch.exp(log_scale), self._terms(c), lam=self.lam
        )
        by_c = by_rate @ self.slopes
        noise = self.noise_b * torch.exp(-2.0 * log_sigma)
        value = (
            p_scale + log_scale - 2.0 * SIGMA_SHAPE * log_sigma - noise + self.c0 * log_c.sum(-1)
        )
        common = by_log + 1.0 - (c * by_c).sum(-1) - self.c0 * self.n_layers
        by_part = c * (by_c + common[:, None]) + self.c0
        by_log_sigma = 2.0 * noise - 2.0 * SIGMA_SHAPE
        return value, torch.cat([by_log_sigma[:, None], by_part], 1)

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (1 + L,), by a compiled loop."""
        gradient = np.empty_like(state)
        weights = self.weights.numpy()
        slopes = self.slopes.numpy()
        value = pcp.density_and_pull(
            state, weights, slopes, self.lam, SIGMA_SHAPE, self.noise_b, self.c0, gradient
        )
        return value, gradient

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 1 + L) from the prior, on the CPU, by `generator` alone."""
        log_gamma = draw_log_gamma(self.c0, (chains, self.n_layers), generator=generator)
        log_c = torch.log_softmax(log_gamma, -1)
        log_sigma = draw_log_sigma(self.noise_b, chains, generator=generator)
        terms = pcp.DistanceTerms(self.weights.cpu(), torch.exp(log_c) @ self.slopes.cpu().T)
        scale = pcp.prior_draws(terms, lam=self.lam, generator=generator, size=(chains,))
        return torch.cat([log_sigma[:, None], torch.log(scale)[:, None] + log_c], 1)

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return start states (chain, 1 + L) on the CPU, for labels of deviation exp(log_sd)."""
        state = self.draw(chains, generator=generator)
        state[:, 0] = log_sd + START_LOG_SIGMA
        log_scale = torch.logsumexp(state[:, 1:], -1, keepdim=True)
        state[:, 1:] += log_scale.clamp(*START_RANGE) - log_scale
        return state

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log tau, log sigma and every c_l of states (..., 1 + L), each (...), by name."""
        tau, c = self.tau_and_weights(torch.from_numpy(np.ascontiguousarray(state)))
        by_layer = {f"c{i + 1}": c[..., i].numpy() for i in range(self.n_layers)}
        return {"tau": torch.log(tau).numpy(), "sigma": state[..., 0]} | by_layer

    def _terms(self, c: Tensor) -> pcp.DistanceTerms:
        return pcp.DistanceTerms(self.weights, c @ self.slopes.T)


@dataclass(frozen=True, eq=False)
class PointEstimateScales(PcpScales):
    """The prior about a point estimate of the source's weights: s_l = sigma exp(a_l / 2)."""

    in_noise_units = True


@dataclass(frozen=True, eq=False)
class VariationalScales(PcpScales):
    """The prior about a variational posterior of the source: s_l = sqrt(1 + exp(a_l)).

    Scales are never below the source's standard deviations.
    """

    smallest_square = 1.0


def point_estimate_scales(
    alpha: Tensor, *, lam: float = 1.0, noise_b: float, c0: float = 1.0
) -> PointEstimateScales:
    """Return the point estimate's prior from squared gradient norms alpha (N, L) at theta_hat."""
    terms = pcp.point_estimate_terms(alpha, alpha.new_zeros(alpha.shape[1]))
    return PointEstimateScales(alpha, terms.weights, lam, noise_b, c0)


def condensed(prior: PointEstimateScales) -> PointEstimateScales:
    """Return the prior with some hundreds of weighted rows where it has more than `MANY_ROWS`.

    Its cost then does not depend on the number of rows (`row_quadrature`).
    """
    if prior.slopes.shape[0] <= MANY_ROWS:
        return prior
    weights, slopes = row_quadrature(prior.slopes.cpu().numpy())
    return replace(
        prior,
        slopes=torch.from_numpy(slopes).to(prior.slopes),
        weights=torch.from_numpy(weights).to(prior.slopes),
    )


def variational_scales(
    layer_sizes: tuple[int, ...],
    *,
    lam: float = 1.0,
    noise_b: float,
    c0: float = 1.0,
    device: torch.device,
) -> VariationalScales:
    """Return the variational prior from the number of parameters of every layer (L,)."""
    slopes = torch.eye(len(layer_sizes), dtype=torch.float64, device=device)
    terms = pcp.variational_terms(layer_sizes, slopes)
    return VariationalScales(slopes, terms.weights, lam, noise_b, c0)
