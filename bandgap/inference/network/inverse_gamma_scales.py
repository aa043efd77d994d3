r"""Scales with independent inverse gamma priors: what Bayesian networks take that know nothing of a source's layers.

theta_l ~ N(theta_hat_l, tau_l I), tau_l ~ InvGamma(2, 1) (Abba, 2023, section 2.5): the mean of tau_l is 1, and the
density of u = log tau_l is -2 u - exp(-u) up to a constant. A state is (log sigma, log tau_1 ... log tau_L).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

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


@dataclass(frozen=True, eq=False)
class InverseGammaScales:
    """Prior of (log sigma, log tau_1 ... log tau_L): s_l = sqrt(tau_l), b of the noise variance's.

    `shape` and `scale` are those of the inverse gamma; chains start at prior draws of tau_l times `start_factor` (L,).
    """

    noise_b: float
    start_factor: Tensor
    shape: float = 2.0
    scale: float = 1.0

    @property
    def n_layers(self) -> int:
        return self.start_factor.shape[0]

    @property
    def units(self) -> Tensor:
        """Rough standard deviations of the coordinates, (1 + L,), by which a run begins."""
        ones = self.start_factor.new_ones(1 + self.n_layers)
        ones[0] = 0.5
        return ones

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain, 1 + L), Jacobians included, up to a constant."""
        u = state[:, 1:]
        return noise_log_density(state[:, 0], self.noise_b) - (
            self.shape * u + self.scale * torch.exp(-u)
        ).sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 1 + L)."""
        by_sigma = 2.0 * self.noise_b * torch.exp(-2.0 * state[:, :1]) - 2.0 * SIGMA_SHAPE
        by_u = self.scale * torch.exp(-state[:, 1:]) - self.shape
        return self.log_density(state), torch.cat([by_sigma, by_u], 1)

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, 1 + L) mean."""
        sigma = torch.exp(state[:, 0])
        return Scales(
            torch.exp(0.5 * state[:, 1:]), torch.exp(state[:, -1] - 2.0 * state[:, 0]), sigma
        )

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, 1 + L)."""
        by_log_sigma = by_scales.by_log_sigma - 2.0 * by_scales.by_log_square[:, -1]
        return torch.cat([by_log_sigma[:, None], by_scales.by_log_square], 1)

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (1 + L,) means."""
        log_sigma, *u = state.tolist()
        return PlainScales([exp(0.5 * a) for a in u], exp(u[-1] - 2.0 * log_sigma), exp(log_sigma))

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (1 + L,)."""
        log_sigma, *u = state.tolist()
        noise, shrunk = self.noise_b * exp(-2.0 * log_sigma), [self.scale * exp(-a) for a in u]
        value = (
            -2.0 * SIGMA_SHAPE * log_sigma
            - noise
            - sum(self.shape * a + b for a, b in zip(u, shrunk, strict=True))
        )
        return value, np.array([2.0 * noise - 2.0 * SIGMA_SHAPE, *(b - self.shape for b in shrunk)])

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (1 + L,), (1 + L,)."""
        return np.array([by_log_sigma - 2.0 * by_log_square[-1], *by_log_square])

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 1 + L) from the prior, on the CPU, with nothing but the given CPU generator."""
        log_sigma = draw_log_sigma(self.noise_b, chains, generator=generator)
        log_gamma = draw_log_gamma(self.shape, (chains, self.n_layers), generator=generator)
        return torch.cat(
            [log_sigma[:, None], torch.log(torch.tensor(self.scale).double()) - log_gamma], 1
        )

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return states (chain, 1 + L), on the CPU, to start from where labels have standard deviation exp(log_sd)."""
        state = self.draw(chains, generator=generator)
        state[:, 0] = log_sd + START_LOG_SIGMA
        state[:, 1:] += torch.log(self.start_factor.cpu())
        return state

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Return states in which s_l of one layer (from 0) is exp(log_factor) (chain,) times what it was: a shift."""
        shift = torch.zeros_like(state)
        shift[:, 1 + layer] = 2.0 * log_factor
        return state + shift

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sum tau of all tau_l (...) and the shares c_l = tau_l / tau (..., L) of states (..., 1 + L)."""
        return torch.exp(state[..., 1:]).sum(-1), torch.softmax(state[..., 1:], -1)

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., 1 + L)."""
        return state[..., 0]

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log sigma and every log tau_l of states (..., 1 + L), each (...), by name."""
        return {"sigma": state[..., 0]} | {
            f"tau{i}": state[..., i] for i in range(1, state.shape[-1])
        }
