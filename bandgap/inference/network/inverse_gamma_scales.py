r"""Independent inverse gamma priors of the layers' scales, for networks without a source.

theta_l ~ N(theta_hat_l, tau_l I), tau_l ~ InvGamma(2, 1) (Abba, 2023, section 2.5). The mean of
tau_l is 1, and the density of u = log tau_l is -2 u - exp(-u) up to a constant. A state is
(log sigma, log tau_1 ... log tau_L) (`layer_scales`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

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


@dataclass(frozen=True, eq=False)
class InverseGammaScales(LayerScales):
    """Prior of (log sigma, log tau_1 ... log tau_L), with s_l = sqrt(tau_l).

    `noise_b` is b of the noise variance's prior. `shape` and `scale` are those of the inverse gamma
    prior of tau_l. Chains start at prior draws of tau_l times `start_factor` (L,).
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
        """Rough standard deviations of the coordinates, (1 + L,)."""
        return rough_units(self.start_factor)

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log density of states (chain, 1 + L), Jacobians included, up to a constant."""
        u = state[:, 1:]
        by_layer = self.shape * u + self.scale * torch.exp(-u)
        return noise_log_density(state[:, 0], self.noise_b) - by_layer.sum(-1)

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, 1 + L)."""
        by_log_sigma = 2.0 * self.noise_b * torch.exp(-2.0 * state[:, :1]) - 2.0 * SIGMA_SHAPE
        by_u = self.scale * torch.exp(-state[:, 1:]) - self.shape
        return self.log_density(state), torch.cat([by_log_sigma, by_u], 1)

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (1 + L,)."""
        log_sigma, *u = state.tolist()
        noise = self.noise_b * exp(-2.0 * log_sigma)
        inverse = [self.scale * exp(-u_l) for u_l in u]
        value = (
            -2.0 * SIGMA_SHAPE * log_sigma
            - noise
            - sum(self.shape * u_l + b for u_l, b in zip(u, inverse, strict=True))
        )
        gradient = [2.0 * noise - 2.0 * SIGMA_SHAPE, *(b - self.shape for b in inverse)]
        return value, np.array(gradient)

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, 1 + L) from the prior, on the CPU, by `generator` alone."""
        log_sigma = draw_log_sigma(self.noise_b, chains, generator=generator)
        log_gamma = draw_log_gamma(self.shape, (chains, self.n_layers), generator=generator)
        log_scale = torch.log(torch.tensor(self.scale).double())
        return torch.cat([log_sigma[:, None], log_scale - log_gamma], 1)

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return start states (chain, 1 + L) on the CPU, for labels of deviation exp(log_sd)."""
        state = self.draw(chains, generator=generator)
        state[:, 0] = log_sd + START_LOG_SIGMA
        state[:, 1:] += torch.log(self.start_factor.cpu())
        return state

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return log sigma and every log tau_l of states (..., 1 + L), each (...), by name."""
        by_layer = {f"tau{i}": state[..., i] for i in range(1, state.shape[-1])}
        return {"sigma": state[..., 0]} | by_layer
