r"""The scales of BTL-PCP: a global scale with the penalized-complexity prior, the layer weights c and the noise.

c = softmax(w) with w_l the logarithm of independent Gamma(c0, 1) variables, that is c ~ Dirichlet(c0, ..., c0); w has
one direction that only the prior sees, which makes it proper without any other Jacobian. Two cases (Abba, 2023,
sections 2.3.3 and 2.3.2), with states (log t, log sigma, w_1 ... w_L) and (log tau, log sigma, w_1 ... w_L):

- point estimate: s_l^2 = tau c_l with t = tau / sigma^2, whose prior does not involve sigma;
- variational: s_l^2 = 1 + tau c_l, the scales of weights in units of their standard deviations at the source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.scales import (
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
from bandgap.priors.pcp_kernel import density_and_pull

START_RANGE = (-9.0, 1.0)  # of the global scale's logarithm: no start is absurd


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
        """Rough standard deviations of the coordinates, (2 + L,), by which a run begins."""
        ones = self.slopes.new_ones(2 + self.n_layers)
        ones[1] = 0.5
        return ones

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain, 2 + L), Jacobians included, up to a constant."""
        log_scale, log_sigma, w = state[:, 0], state[:, 1], state[:, 2:]
        terms = self._terms(torch.softmax(w, -1))
        p_scale = pcp.log_density(torch.exp(log_scale), terms, lam=self.lam) + log_scale
        return p_scale + noise_log_density(log_sigma, self.noise_b) + (self.c0 * w - torch.exp(w)).sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 2 + L)."""
        if not state.is_cuda:
            values, gradients = zip(*(self.plain_density(one) for one in state.numpy()), strict=True)
            return torch.tensor(values, dtype=torch.float64), torch.from_numpy(np.stack(gradients))
        return self._gradient(state)

    def _gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value and its gradient by operations that run on any device."""
        log_scale, log_sigma, w = state[:, 0], state[:, 1], state[:, 2:]
        c = torch.softmax(w, -1)
        p_scale, by_log, by_rate = pcp.log_density_and_gradient(torch.exp(log_scale), self._terms(c), lam=self.lam)
        by_c = by_rate @ self.slopes
        noise = self.noise_b * torch.exp(-2.0 * log_sigma)
        value = p_scale + log_scale - 2.0 * SIGMA_SHAPE * log_sigma - noise + (self.c0 * w - torch.exp(w)).sum(-1)
        by_w = c * (by_c - (c * by_c).sum(-1, keepdim=True)) + self.c0 - torch.exp(w)
        by_scales = torch.stack([by_log + 1.0, 2.0 * noise - 2.0 * SIGMA_SHAPE], -1)
        return value, torch.cat([by_scales, by_w], 1)

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (2 + L,), by a compiled loop: at a tenth of the time."""
        by = np.empty_like(state)
        weights, slopes = self.weights.numpy(), self.slopes.numpy()
        value = density_and_pull(state, weights, slopes, self.lam, SIGMA_SHAPE, self.noise_b, self.c0, by)
        return value, by

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 2 + L) from the prior, on the CPU, with nothing but the given CPU generator."""
        w = draw_log_gamma(self.c0, (chains, self.n_layers), generator=generator)
        log_sigma = draw_log_sigma(self.noise_b, chains, generator=generator)
        terms = pcp.DistanceTerms(self.weights.cpu(), torch.softmax(w, -1) @ self.slopes.cpu().T)
        scale = pcp.prior_draws(terms, lam=self.lam, generator=generator, size=(chains,))
        return torch.cat([torch.log(scale)[:, None], log_sigma[:, None], w], 1)

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return states (chain, 2 + L), on the CPU, to start from where labels have standard deviation exp(log_sd)."""
        state = self.draw(chains, generator=generator)
        state[:, 1] = log_sd + START_LOG_SIGMA
        state[:, 0] = state[:, 0].clamp(*START_RANGE)
        return state

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., 2 + L)."""
        return state[..., 1]

    def _terms(self, c: Tensor) -> pcp.DistanceTerms:
        return pcp.DistanceTerms(self.weights, c @ self.slopes.T)


@dataclass(frozen=True, eq=False)
class PointEstimateScales(PcpScales):
    """The point estimate's case: s_l = sigma sqrt(t c_l)."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, 2 + L) mean."""
        relative = torch.exp(0.5 * (state[:, :1] + torch.log_softmax(state[:, 2:], -1)))
        sigma = torch.exp(state[:, 1])
        return Scales(relative * sigma[:, None], relative[:, -1] ** 2, sigma)

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, 2 + L)."""
        by_log_c = by_scales.by_log_square
        by_log_sigma = by_scales.by_log_sigma + 2.0 * by_log_c[:, :-1].sum(-1)
        total = by_log_c.sum(-1, keepdim=True)
        return torch.cat([total, by_log_sigma[:, None], by_log_c - torch.softmax(state[:, 2:], -1) * total], 1)

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (2 + L,) means."""
        log_t, log_sigma, *w = state.tolist()
        top = log_t - _log_sum(w)
        relative, sigma = [exp(0.5 * (top + a)) for a in w], exp(log_sigma)
        return PlainScales([sigma * r for r in relative], relative[-1] ** 2, sigma)

    def plain_by_state(self, state: Floats, by_log_square: list[float], by_log_sigma: float) -> Floats:
        """Return `by_state` of one state (2 + L,), (2 + L,)."""
        w, total = state[2:].tolist(), sum(by_log_square)
        top, by_sigma = _log_sum(w), by_log_sigma + 2.0 * sum(by_log_square[:-1])
        by_w = [g - exp(a - top) * total for g, a in zip(by_log_square, w, strict=True)]
        return np.array([total, by_sigma, *by_w])

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Return states in which s_l of one layer (from 0) is exp(log_factor) (chain,) times what it was.

        The other scales, sigma and the sum of exp(w) stay. In the coordinates a_l = log(t c_l) and log sum exp(w),
        which have a constant Jacobian, it is a shift of one a_l: it preserves volume.
        """
        a = state[:, :1] + torch.log_softmax(state[:, 2:], -1)
        a = torch.cat([a[:, :layer], a[:, layer : layer + 1] + 2.0 * log_factor[:, None], a[:, layer + 1 :]], 1)
        w = torch.log_softmax(a, -1) + state[:, 2:].logsumexp(-1, keepdim=True)
        return torch.cat([a.logsumexp(-1, keepdim=True), state[:, 1:2], w], 1)

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau = t sigma^2 (...) and c (..., L) of states (..., 2 + L)."""
        return torch.exp(state[..., 0] + 2.0 * state[..., 1]), torch.softmax(state[..., 2:], -1)

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log tau, log sigma and every c_l of states (..., 2 + L), each (...), by name."""
        return _judged(state, log_tau=state[..., 0] + 2 * state[..., 1])


@dataclass(frozen=True, eq=False)
class VariationalScales(PcpScales):
    """The variational case: s_l = sqrt(1 + tau c_l), never below the source's own standard deviations."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, 2 + L) mean."""
        square = 1.0 + torch.exp(state[:, :1] + torch.log_softmax(state[:, 2:], -1))
        sigma = torch.exp(state[:, 1])
        return Scales(torch.sqrt(square), square[:, -1] / sigma**2, sigma)

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, 2 + L); d log s_l^2 / d log(tau c_l) <= 1."""
        c = torch.softmax(state[:, 2:], -1)
        added = torch.exp(state[:, :1]) * c
        by_log_c = by_scales.by_log_square * added / (1.0 + added)
        by_log_sigma = by_scales.by_log_sigma - 2.0 * by_scales.by_log_square[:, -1]
        total = by_log_c.sum(-1, keepdim=True)
        return torch.cat([total, by_log_sigma[:, None], by_log_c - c * total], 1)

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (2 + L,) means."""
        log_tau, log_sigma, *w = state.tolist()
        top = log_tau - _log_sum(w)
        s = [sqrt(1.0 + exp(top + a)) for a in w]
        return PlainScales(s, s[-1] ** 2 * exp(-2.0 * log_sigma), exp(log_sigma))

    def plain_by_state(self, state: Floats, by_log_square: list[float], by_log_sigma: float) -> Floats:
        """Return `by_state` of one state (2 + L,), (2 + L,)."""
        c, tau = np.exp(state[2:] - _log_sum(state[2:].tolist())), exp(state[0])
        by_log_c = np.array(by_log_square) * tau * c / (1.0 + tau * c)
        total = by_log_c.sum()
        return np.array([total, by_log_sigma - 2.0 * by_log_square[-1], *(by_log_c - c * total)])

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau (...) and c (..., L) of states (..., 2 + L)."""
        return torch.exp(state[..., 0]), torch.softmax(state[..., 2:], -1)

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log tau, log sigma and every c_l of states (..., 2 + L), each (...), by name."""
        return _judged(state, log_tau=state[..., 0])


def point_estimate_scales(alpha: Tensor, *, lam: float = 1.0, noise_b: float, c0: float = 1.0) -> PointEstimateScales:
    """Return the prior of the point estimate's case from squared gradient norms alpha (N, L) at theta_hat."""
    terms = pcp.point_estimate_terms(alpha, alpha.new_zeros(alpha.shape[1]))
    return PointEstimateScales(alpha, terms.weights, lam, noise_b, c0)


def variational_scales(
    layer_sizes: tuple[int, ...], *, lam: float = 1.0, noise_b: float, c0: float = 1.0, device: torch.device
) -> VariationalScales:
    """Return the prior of the variational case from the number of parameters of every layer (L,)."""
    slopes = torch.eye(len(layer_sizes), dtype=torch.float64, device=device)
    terms = pcp.variational_terms(layer_sizes, slopes)
    return VariationalScales(slopes, terms.weights, lam, noise_b, c0)


def _judged(state: Floats, *, log_tau: Floats) -> Mapping[str, Floats]:
    c = torch.softmax(torch.from_numpy(np.ascontiguousarray(state[..., 2:])), -1).numpy()
    return {"tau": log_tau, "sigma": state[..., 1]} | {f"c{i + 1}": c[..., i] for i in range(c.shape[-1])}


def _log_sum(w: list[float]) -> float:
    """Return log sum exp(w)."""
    top = max(w)
    return top + log(sum(exp(a - top) for a in w))
