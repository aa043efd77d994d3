r"""What the sampler asks of a prior of scales: its density over the sampler's coordinates, and the scales they mean.

Weights are theta_l = theta_hat_l + s_l z_l with z ~ N(0, I), labels are normal with standard deviation sigma. A state
is a tensor (chain, width) in float64 of unbounded coordinates; which ones, the prior decides, as it knows how s_l and
sigma come from them. All priors here have sigma^2 ~ InvGamma(2, b), that is log sigma as one of the coordinates.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SIGMA_SHAPE = 2.0  # of the inverse gamma prior of sigma^2: its mean is then b
START_LOG_SIGMA = (
    -0.7
)  # of the noise at the start, relative to the labels' standard deviation: half of it

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of a state: s_l of every layer (chain, L), rho = (s_L / sigma)^2 and sigma, both (chain,)."""

    s: Tensor
    rho: Tensor
    sigma: Tensor


@dataclass(frozen=True, eq=False)
class ScaleGradient:
    """Gradient of a log density by the scales, with the whitened weights z fixed.

    `by_log_square` (chain, L): by log s_l^2 of the sampled layers and, last, by log rho; `by_log_sigma` (chain,) with
    these fixed.
    """

    by_log_square: Tensor
    by_log_sigma: Tensor


@dataclass(frozen=True)
class PlainScales:
    """`Scales` of one chain in plain numbers: on a few of them, small arrays cost more than arithmetic."""

    s: list[float]
    rho: float
    sigma: float


class ScalePrior(Protocol):
    """Prior of the scales over states (chain, width), the only one who knows what a state's coordinates are."""

    @property
    def n_layers(self) -> int:
        """Number L of layers, the output layer included."""

    @property
    def units(self) -> Tensor:
        """Rough standard deviations of the coordinates, (width,), by which a run begins."""

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain,), Jacobians included, up to a constant."""

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, width)."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales that states (chain, width) mean."""

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Return a gradient by the scales as one by the state (chain, width)."""

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales that one state (width,) means."""

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (width,)."""

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (width,), (width,)."""

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, width) from the prior, on the CPU, with nothing but the given CPU generator."""

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return states (chain, width), on the CPU, to start from where labels have standard deviation exp(log_sd)."""

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau (...) and layer weights c (..., L) of states (..., width), tau in squared standardised units."""

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., width), in standardised units."""

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return by name the quantities of states (..., width) on which convergence is judged, each (...)."""


@runtime_checkable
class FreeScalePrior(ScalePrior, Protocol):
    """A prior under which every layer's scale may be any positive number, whatever the others are."""

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Return states in which s_l of one layer (from 0) is exp(log_factor) (chain,) times what it was.

        The other scales and sigma stay, and the map of the states preserves volume.
        """


def noise_log_density(log_sigma: Tensor, b: float) -> Tensor:
    """Return the log density of log sigma where sigma^2 ~ InvGamma(2, b), up to a constant."""
    return -2.0 * SIGMA_SHAPE * log_sigma - b * torch.exp(-2.0 * log_sigma)


def draw_log_sigma(b: float, chains: int, *, generator: torch.Generator) -> Tensor:
    """Draw log sigma (chain,) where sigma^2 ~ InvGamma(2, b)."""
    return 0.5 * (math.log(b) - draw_log_gamma(SIGMA_SHAPE, (chains,), generator=generator))


def draw_log_gamma(shape: float, size: tuple[int, ...], *, generator: torch.Generator) -> Tensor:
    """Draw logarithms of Gamma(shape, 1) variables, exact for small shapes: G(a) has the law of G(a + 1) U^(1/a)."""
    above = torch._standard_gamma(
        torch.full(size, shape + 1.0, dtype=torch.float64), generator=generator
    )
    uniform = 1.0 - torch.rand(size, generator=generator, dtype=torch.float64)
    return torch.log(above) + torch.log(uniform) / shape
