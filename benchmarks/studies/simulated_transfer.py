"""The simulated source and target data of Abba (2023), section 2.4.

x_1 ~ N(0, 1), x_j | x_(j-1) ~ N(rho x_(j-1), 1 - rho^2), y ~ N(C mu(x), sigma^2) with

    mu(x) = cos(2 sum_(j <= k*) x_j / k*)

over k* = k_s inputs in the source and k_s + k in the target. The printed argument of the cosine is
damaged; it is read as 2 sum x / k*. C is such that C mu has the stated variance on the target.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Design:
    """A design: inputs, active inputs of the source, added ones of the target, noise, signal.

    The argument of the cosine is `slope` times the mean of the active inputs.
    """

    inputs: int = 30
    rho: float = 0.5
    sigma: float = 1.0
    source_active: int = 15
    added: int = 0
    signal_variance: float = 4.0
    slope: float = 2.0

    @property
    def amplitude(self) -> float:
        """C, from the variance of the cosine of a normal variable."""
        active = self.source_active + self.added
        rho = self.rho
        of_sum = active * (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**active) / (1 - rho) ** 2
        variance = (self.slope / active) ** 2 * of_sum
        return math.sqrt(self.signal_variance) / math.sqrt(0.5 * (1 - math.exp(-variance)) ** 2)


def inputs_of(design: Design, shape: tuple[int, ...], *, generator: torch.Generator) -> Tensor:
    """Draw inputs (*shape, inputs)."""
    noise = torch.randn(*shape, design.inputs, generator=generator)
    columns = [noise[..., 0]]
    innovation = math.sqrt(1.0 - design.rho**2)
    for j in range(1, design.inputs):
        columns.append(design.rho * columns[-1] + innovation * noise[..., j])
    return torch.stack(columns, -1)


def mean_function(design: Design, x: Tensor, *, target: bool) -> Tensor:
    """Return C mu(x) of the source or the target, (...)."""
    active = design.source_active + (design.added if target else 0)
    return design.amplitude * torch.cos(design.slope * x[..., :active].sum(-1) / active)
