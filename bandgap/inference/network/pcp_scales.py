r"""The scales of BTL-PCP: a global scale with the penalized-complexity prior, the layer weights c and the noise.

The layers' parts of the global scale, a_l = log(scale c_l), are the coordinates: what the data say of one layer's scale
is about one of them, while in log scale and log c the posterior is a bent ridge. With c ~ Dirichlet(c0, ..., c0) their
density is p(log scale) prod_l c_l^c0, scale = sum exp(a), c = softmax(a), as |d(log scale, c_1 ... c_(L-1)) / da| is
prod_l c_l. Two cases (Abba, 2023, sections 2.3.3 and 2.3.2), both with states (log sigma, a_1 ... a_L):

- point estimate: a_l = log(t c_l) with t = tau / sigma^2, whose prior does not involve sigma; s_l^2 = sigma^2 exp(a_l);
- variational: a_l = log(tau c_l), s_l^2 = 1 + exp(a_l), the scales of weights in units of their standard deviations at
  the source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp, sqrt

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network.scales import (
    SIGMA_SHAPE,
    START_LOG_SIGMA,
    Floats,
    PlainScales,
    ScaleGradient,
    Scales,
    draw_log_gamma,
    draw_log_sigma,
    noise_log_density,
)
from bandgap.priors import penalized_complexity as pcp
from bandgap.priors.row_quadrature import row_quadrature

START_RANGE = (-9.0, 1.0)  # of the global scale's logarithm: no start is absurd
MANY_ROWS = 8000  # beyond which `condensed` takes few for all


@dataclass(frozen=True, eq=False)
class PcpScales:
    """Density of the states of both cases: the distance has weights (J,) and rates a = slopes c with slopes (J, L).

    Rate `lam` of the distance's prior, b of the noise variance's, Dirichlet parameter `c0`.
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
        """Rough standard deviations of the coordinates, (1 + L,), by which a run begins."""
        ones = self.slopes.new_ones(1 + self.n_layers)
        ones[0] = 0.5
        return ones

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain, 1 + L), Jacobians included, up to a constant."""
        log_sigma, log_scale = state[:, 0], torch.logsumexp(state[:, 1:], -1)
        log_c = state[:, 1:] - log_scale[:, None]
        p_scale = (
            pcp.log_density(torch.exp(log_scale), self._terms(torch.exp(log_c)), lam=self.lam)
            + log_scale
        )
        return p_scale + noise_log_density(log_sigma, self.noise_b) + self.c0 * log_c.sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 1 + L)."""
        if not state.is_cuda:
            values, gradients = zip(
                *(self.plain_density(one) for one in state.numpy()), strict=True
            )
            return torch.tensor(values, dtype=torch.float64), torch.from_numpy(np.stack(gradients))
        return self._gradient(state)

    def _gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient by operations that run on any device."""
        log_sigma, log_scale = state[:, 0], torch.logsumexp(state[:, 1:], -1)
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
        return value, torch.cat([(2.0 * noise - 2.0 * SIGMA_SHAPE)[:, None], by_part], 1)

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (1 + L,), by a compiled loop: at a tenth of the time."""
        by = np.empty_like(state)
        weights, slopes = self.weights.numpy(), self.slopes.numpy()
        value = pcp.density_and_pull(
            state, weights, slopes, self.lam, SIGMA_SHAPE, self.noise_b, self.c0, by
        )
        return value, by

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 1 + L) from the prior, on the CPU, with nothing but the given CPU generator."""
        log_c = torch.log_softmax(
            draw_log_gamma(self.c0, (chains, self.n_layers), generator=generator), -1
        )
        log_sigma = draw_log_sigma(self.noise_b, chains, generator=generator)
        terms = pcp.DistanceTerms(self.weights.cpu(), torch.exp(log_c) @ self.slopes.cpu().T)
        scale = pcp.prior_draws(terms, lam=self.lam, generator=generator, size=(chains,))
        return torch.cat([log_sigma[:, None], torch.log(scale)[:, None] + log_c], 1)

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return states (chain, 1 + L), on the CPU, to start from where labels have standard deviation exp(log_sd)."""
        state = self.draw(chains, generator=generator)
        state[:, 0] = log_sd + START_LOG_SIGMA
        log_scale = torch.logsumexp(state[:, 1:], -1, keepdim=True)
        state[:, 1:] += log_scale.clamp(*START_RANGE) - log_scale
        return state

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., 1 + L)."""
        return state[..., 0]

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the global scale (...) and c (..., L) of states (..., 1 + L)."""
        parts = state[..., 1:]
        return torch.exp(torch.logsumexp(parts, -1)), torch.softmax(parts, -1)

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log tau, log sigma and every c_l of states (..., 1 + L), each (...), by name."""
        tau, c = self.tau_and_weights(torch.from_numpy(np.ascontiguousarray(state)))
        by_layer = {f"c{i + 1}": c[..., i].numpy() for i in range(self.n_layers)}
        return {"tau": torch.log(tau).numpy(), "sigma": state[..., 0]} | by_layer

    def _terms(self, c: Tensor) -> pcp.DistanceTerms:
        return pcp.DistanceTerms(self.weights, c @ self.slopes.T)


@dataclass(frozen=True, eq=False)
class PointEstimateScales(PcpScales):
    """The point estimate's case: s_l = sigma exp(a_l / 2)."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, 1 + L) mean."""
        relative, sigma = torch.exp(0.5 * state[:, 1:]), torch.exp(state[:, 0])
        return Scales(relative * sigma[:, None], relative[:, -1] ** 2, sigma)

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, 1 + L)."""
        by_log_sigma = by_scales.by_log_sigma + 2.0 * by_scales.by_log_square[:, :-1].sum(-1)
        return torch.cat([by_log_sigma[:, None], by_scales.by_log_square], 1)

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (1 + L,) means."""
        log_sigma, *parts = state.tolist()
        relative, sigma = [exp(0.5 * a) for a in parts], exp(log_sigma)
        return PlainScales([sigma * r for r in relative], relative[-1] ** 2, sigma)

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (1 + L,), (1 + L,)."""
        return np.array([by_log_sigma + 2.0 * sum(by_log_square[:-1]), *by_log_square])

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Return states in which s_l of one layer (from 0) is exp(log_factor) (chain,) times what it was: a shift."""
        shift = torch.zeros_like(state)
        shift[:, 1 + layer] = 2.0 * log_factor
        return state + shift

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau = t sigma^2 (...) and c (..., L) of states (..., 1 + L)."""
        parts = state[..., 1:]
        return torch.exp(torch.logsumexp(parts, -1) + 2.0 * state[..., 0]), torch.softmax(parts, -1)


@dataclass(frozen=True, eq=False)
class VariationalScales(PcpScales):
    """The variational case: s_l = sqrt(1 + exp(a_l)), never below the source's own standard deviations."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, 1 + L) mean."""
        square, sigma = 1.0 + torch.exp(state[:, 1:]), torch.exp(state[:, 0])
        return Scales(torch.sqrt(square), square[:, -1] / sigma**2, sigma)

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, 1 + L); d log s_l^2 / d a_l <= 1."""
        added = torch.exp(state[:, 1:])
        by_log_sigma = by_scales.by_log_sigma - 2.0 * by_scales.by_log_square[:, -1]
        return torch.cat(
            [by_log_sigma[:, None], by_scales.by_log_square * added / (1.0 + added)], 1
        )

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (1 + L,) means."""
        log_sigma, *parts = state.tolist()
        s = [sqrt(1.0 + exp(a)) for a in parts]
        return PlainScales(s, s[-1] ** 2 * exp(-2.0 * log_sigma), exp(log_sigma))

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (1 + L,), (1 + L,)."""
        added = np.exp(state[1:])
        by_log_sigma -= 2.0 * by_log_square[-1]
        return np.array([by_log_sigma, *(np.array(by_log_square) * added / (1.0 + added))])


def point_estimate_scales(
    alpha: Tensor, *, lam: float = 1.0, noise_b: float, c0: float = 1.0
) -> PointEstimateScales:
    """Return the prior of the point estimate's case from squared gradient norms alpha (N, L) at theta_hat."""
    terms = pcp.point_estimate_terms(alpha, alpha.new_zeros(alpha.shape[1]))
    return PointEstimateScales(alpha, terms.weights, lam, noise_b, c0)


def condensed(prior: PointEstimateScales) -> PointEstimateScales:
    """Return the prior with some hundreds of weighted rows for all, where these are more than `MANY_ROWS`.

    Made once (`row_quadrature`), it costs the same however many rows there are.
    """
    if prior.slopes.shape[0] <= MANY_ROWS:
        return prior
    weights, slopes = (
        torch.from_numpy(found).to(prior.slopes)
        for found in row_quadrature(prior.slopes.cpu().numpy())
    )
    return replace(prior, slopes=slopes, weights=weights)


def variational_scales(
    layer_sizes: tuple[int, ...],
    *,
    lam: float = 1.0,
    noise_b: float,
    c0: float = 1.0,
    device: torch.device,
) -> VariationalScales:
    """Return the prior of the variational case from the number of parameters of every layer (L,)."""
    slopes = torch.eye(len(layer_sizes), dtype=torch.float64, device=device)
    terms = pcp.variational_terms(layer_sizes, slopes)
    return VariationalScales(slopes, terms.weights, lam, noise_b, c0)
