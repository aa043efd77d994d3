"""A density in the plane along a bent ridge (Wang, Deng and Lin, 2021, section 5.1).

With the exponential that is missing in print,

    p(b1, b2) ~ exp(-b1^4 / 10 - (4 (b2 + 1.2) - b1^2)^2 / 2)

At inverse temperature tau, b1 has density ~ exp(-tau b1^4 / 10) and b2 | b1 ~ N(-1.2 + b1^2 / 4, 1
/ (16 tau)). The two are uncorrelated and far from independent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import gamma

import torch
from torch import Tensor

MOMENTS = ("E b1^2", "E b1^4", "E b2", "Var b2", "Cov(b1^2, b2)")


@dataclass(frozen=True)
class BentDensity:
    """The density as the target of a sampler: one row, and no prior."""

    n_rows: int = 1

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return zero: the density is one row."""
        return torch.zeros_like(position)

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return (-0.4 b1^3 + 2 b1 e, -4 e), e = 4 (b2 + 1.2) - b1^2."""
        del rows
        return gradient(position)


def log_density(position: Tensor) -> Tensor:
    """Return log p up to its constant of positions (..., 2)."""
    b1, b2 = position.unbind(-1)
    return -0.1 * b1**4 - 0.5 * (4.0 * (b2 + 1.2) - b1**2) ** 2


def gradient(position: Tensor) -> Tensor:
    """Return the gradient of `log_density` at positions (..., 2)."""
    b1, b2 = position.unbind(-1)
    e = 4.0 * (b2 + 1.2) - b1**2
    return torch.stack([-0.4 * b1**3 + 2.0 * b1 * e, -4.0 * e], -1)


def exact_draws(
    count: int, *, generator: torch.Generator, inverse_temperature: float = 1.0
) -> Tensor:
    """Draw positions (count, 2): b1 = +-(10 X / tau)^(1/4), X ~ Gamma(1/4, 1)."""
    tau = inverse_temperature
    x = torch._standard_gamma(torch.full((count,), 0.25, dtype=torch.float64), generator=generator)
    sign = 2.0 * torch.randint(2, (count,), generator=generator) - 1.0
    b1 = sign * (10.0 * x / tau) ** 0.25
    b2 = (
        -1.2
        + 0.25 * b1**2
        + torch.randn(count, generator=generator, dtype=torch.float64) / (4.0 * tau**0.5)
    )
    return torch.stack([b1, b2], -1)


def exact_moments(inverse_temperature: float = 1.0) -> Mapping[str, float]:
    """Return the exact values of MOMENTS.

    E b1^k = (10 / tau)^(k/4) Gamma((k + 1) / 4) / Gamma(1/4).
    """
    tau = inverse_temperature
    second, fourth = ((10.0 / tau) ** (k / 4) * gamma((k + 1) / 4) / gamma(0.25) for k in (2, 4))
    spread = (fourth - second**2) / 4.0
    values = (second, fourth, -1.2 + second / 4.0, 1.0 / (16.0 * tau) + spread / 4.0, spread)
    return dict(zip(MOMENTS, values, strict=True))


def centred_powers(position: Tensor, *, inverse_temperature: float = 1.0) -> Tensor:
    """Return quantities (chain, 5) whose expectations are MOMENTS, centred at the exact means."""
    exact = exact_moments(inverse_temperature)
    b1, b2 = position.unbind(-1)
    second = b1**2
    centred = b2 - exact["E b2"]
    return torch.stack([second, b1**4, b2, centred**2, (second - exact["E b1^2"]) * centred], -1)
