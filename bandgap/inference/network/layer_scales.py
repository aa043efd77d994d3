r"""States (log sigma, a_1 ... a_L): one coordinate for each layer's scale, in all priors of scales.

    s_l^2 = exp(a_l) sigma^2                if `in_noise_units`
    s_l^2 = smallest_square + exp(a_l)      otherwise

| prior | `in_noise_units` | `smallest_square` |
|---|---|---|
| `pcp_scales.PointEstimateScales` | True | 0 |
| `pcp_scales.VariationalScales` | False | 1 |
| `inverse_gamma_scales.InverseGammaScales` | False | 0 |

The maps exist twice: in torch for batches of chains on any device, and as Python numbers for one
chain on a CPU (`plain_...`), where they are several times faster. `test_scales.py` checks that both
agree.
"""

from abc import ABC, abstractmethod
from math import exp, sqrt
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from bandgap.inference.network.scales import Floats, PlainScales, ScaleGradient, Scales

UNIT_LOG_SIGMA = 0.5  # rough standard deviation of log sigma; that of every a_l is 1


class LayerScales(ABC):
    """What the coordinates of a state mean. A subclass adds the density and draws."""

    in_noise_units: ClassVar[bool] = False
    smallest_square: ClassVar[float] = 0.0

    @property
    @abstractmethod
    def n_layers(self) -> int:
        """Number L of layers, the output layer included."""

    @property
    def scales_are_free(self) -> bool:
        """Whether every layer's scale may be any positive number, whatever the other scales are."""
        return self.smallest_square == 0.0

    def scales(self, state: Tensor) -> Scales:
        """Return the scales of states (chain, 1 + L)."""
        log_sigma = state[:, 0]
        sigma = torch.exp(log_sigma)
        if self.in_noise_units:
            relative = torch.exp(0.5 * state[:, 1:])
            return Scales(relative * sigma[:, None], relative[:, -1] ** 2, sigma)
        if self.smallest_square:
            square = self.smallest_square + torch.exp(state[:, 1:])
            return Scales(torch.sqrt(square), square[:, -1] / sigma**2, sigma)
        rho = torch.exp(state[:, -1] - 2.0 * log_sigma)
        return Scales(torch.exp(0.5 * state[:, 1:]), rho, sigma)

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Convert a gradient by the scales to one by the state (chain, 1 + L)."""
        by_log_square = by_scales.by_log_square
        if self.in_noise_units:
            by_log_sigma = by_scales.by_log_sigma + 2.0 * by_log_square[:, :-1].sum(-1)
        else:
            by_log_sigma = by_scales.by_log_sigma - 2.0 * by_log_square[:, -1]
        if self.smallest_square:
            square = torch.exp(state[:, 1:])
            by_log_square = by_log_square * square / (self.smallest_square + square)
        return torch.cat([by_log_sigma[:, None], by_log_square], 1)

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales of one state (1 + L,)."""
        log_sigma, *a = state.tolist()
        sigma = exp(log_sigma)
        if self.in_noise_units:
            relative = [exp(0.5 * a_l) for a_l in a]
            return PlainScales([sigma * r for r in relative], relative[-1] ** 2, sigma)
        if self.smallest_square:
            s = [sqrt(self.smallest_square + exp(a_l)) for a_l in a]
            return PlainScales(s, s[-1] ** 2 * exp(-2.0 * log_sigma), sigma)
        return PlainScales([exp(0.5 * a_l) for a_l in a], exp(a[-1] - 2.0 * log_sigma), sigma)

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (1 + L,), (1 + L,)."""
        if self.in_noise_units:
            by_log_sigma += 2.0 * sum(by_log_square[:-1])
        else:
            by_log_sigma -= 2.0 * by_log_square[-1]
        if self.smallest_square:
            square = np.exp(state[1:])
            by_parts = np.array(by_log_square) * square / (self.smallest_square + square)
            return np.array([by_log_sigma, *by_parts])
        return np.array([by_log_sigma, *by_log_square])

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Multiply s_l of one layer (from 0) by exp(log_factor) (chain,) and return the states.

        The other scales and sigma stay, and the map of the states, a shift, preserves volume.
        Only where `scales_are_free`.
        """
        shift = torch.zeros_like(state)
        shift[:, 1 + layer] = 2.0 * log_factor
        return state + shift

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., 1 + L)."""
        return state[..., 0]

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau (...) and c (..., L) of states (..., 1 + L).

        tau is the sum of all tau_l, and c_l = tau_l / tau. tau_l = exp(a_l), times sigma^2 if
        `in_noise_units`.
        """
        log_tau = torch.logsumexp(state[..., 1:], -1)
        if self.in_noise_units:
            log_tau = log_tau + 2.0 * state[..., 0]
        return torch.exp(log_tau), torch.softmax(state[..., 1:], -1)


def rough_units(like: Tensor) -> Tensor:
    """Return rough standard deviations (1 + L,) of a state, typed as `like` (..., L)."""
    units = like.new_ones(1 + like.shape[-1])
    units[0] = UNIT_LOG_SIGMA
    return units
