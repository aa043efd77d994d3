r"""The scales of a network's layers and the interface of their priors.

Weights are theta_l = theta_hat_l + s_l z_l with z ~ N(0, I). Labels are normal with standard
deviation sigma. A state is a tensor (chain, width) in float64 of unbounded coordinates. What they
mean is up to the prior (`layer_scales`). All priors here have sigma^2 ~ InvGamma(2, b).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SIGMA_SHAPE = 2.0  # of the inverse gamma prior of sigma^2: its mean is then b
# log of the noise at the start, relative to the labels' standard deviation: half of it
START_LOG_SIGMA = -0.7

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of states: s_l (chain, L), rho = (s_L / sigma)^2 (chain,) and sigma (chain,)."""

    s: Tensor
    rho: Tensor
    sigma: Tensor


@dataclass(frozen=True, eq=False)
class ScaleGradient:
    """Gradient of a log density by the scales, with the whitened weights z fixed.

    `by_log_square` (chain, L) is the gradient by log s_l^2 of the sampled layers and, last, by log
    rho. `by_log_sigma` (chain,) is the derivative by log sigma with these fixed.
    """

    by_log_square: Tensor
    by_log_sigma: Tensor


@dataclass(frozen=True)
class PlainScales:
    """`Scales` of one chain as Python numbers, which are faster here than small arrays."""

    s: list[float]
    rho: float
    sigma: float


class ScalePrior(Protocol):
    """Prior of the scales over states (chain, width)."""

    @property
    def n_layers(self) -> int:
        """Number L of layers, the output layer included."""

    @property
    def units(self) -> Tensor:
        """Rough standard deviations of the coordinates, (width,), for the start of warm-up."""

    @property
    def scales_are_free(self) -> bool:
        """Whether every layer's scale may be any positive number, whatever the other scales are."""

    def log_density(self, state: Tensor) -> Tensor:
        """Return the log prior density of states (chain,), Jacobians included, up to a constant."""

    def log_density_and_gradient(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return `log_density` (chain,) and its gradient by the state (chain, width)."""

    def scales(self, state: Tensor) -> Scales:
        """Return the scales of states (chain, width)."""

    def by_state(self, state: Tensor, by_scales: ScaleGradient) -> Tensor:
        """Convert a gradient by the scales to one by the state (chain, width)."""

    def plain_scales(self, state: Floats) -> PlainScales:
        """Return the scales of one state (width,)."""

    def plain_density(self, state: Floats) -> tuple[float, Floats]:
        """Return `log_density_and_gradient` of one state (width,)."""

    def plain_by_state(
        self, state: Floats, by_log_square: list[float], by_log_sigma: float
    ) -> Floats:
        """Return `by_state` of one state (width,), (width,)."""

    def with_layer_scaled(self, state: Tensor, layer: int, log_factor: Tensor) -> Tensor:
        """Multiply s_l of one layer (from 0) by exp(log_factor) (chain,) and return the states.

        The other scales and sigma stay, and the map of the states preserves volume.
        Only where `scales_are_free`.
        """

    def draw(self, chains: int, *, generator: torch.Generator) -> Tensor:
        """Draw states (chain, width) from the prior, on the CPU, by `generator` alone."""

    def start(self, chains: int, *, log_sd: float, generator: torch.Generator) -> Tensor:
        """Return start states (chain, width) on the CPU, for labels of deviation exp(log_sd)."""

    def tau_and_weights(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return tau (...) and layer weights c (..., L) of states (..., width).

        tau is in squared standardised units.
        """

    def log_sigma(self, state: Tensor) -> Tensor:
        """Return log sigma (...) of states (..., width), in standardised units."""

    def judged(self, state: Floats) -> Mapping[str, Floats]:
        """Return the quantities of states (..., width) whose convergence is judged, each (...)."""


def noise_log_density(log_sigma: Tensor, b: float) -> Tensor:
    """Return the log density of log sigma where sigma^2 ~ InvGamma(2, b), up to a constant."""
    return -2.0 * SIGMA_SHAPE * log_sigma - b * torch.exp(-2.0 * log_sigma)


def draw_log_sigma(b: float, chains: int, *, generator: torch.Generator) -> Tensor:
    """Draw log sigma (chain,) where sigma^2 ~ InvGamma(2, b)."""
    return 0.5 * (math.log(b) - draw_log_gamma(SIGMA_SHAPE, (chains,), generator=generator))


def draw_log_gamma(shape: float, size: tuple[int, ...], *, generator: torch.Generator) -> Tensor:
    """Draw logarithms of Gamma(shape, 1) variables, exact for small shapes.

    G(a) has the law of G(a + 1) U^(1/a).
    """
    shapes = torch.full(size, shape + 1.0, dtype=torch.float64)
    gamma = torch._standard_gamma(shapes, generator=generator)
    uniform = 1.0 - torch.rand(size, generator=generator, dtype=torch.float64)
    return torch.log(gamma) + torch.log(uniform) / shape
