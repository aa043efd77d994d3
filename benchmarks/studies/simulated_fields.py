"""The simulated fields of Abba (2023), section 4.4.1, and its priors.

A grid of spacing 1, sigma2 = 5, tau2 = 5 k with k one of 0.2, 1 and 5, nu one of 0.5, 1 and 1.5,
and mean -3 + 5 cos x_i with x_i ~ U(-3, 3). The correlation at the largest distance of the grid of
10,000 sites is 10 to a power that is lost in print; it is read as -10, the only one that puts rho
in the bulk of its prior. The fields are drawn exactly, by circulant embedding.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from bandgap.research.vecchia.correlation import matern
from benchmarks.studies.batched_fields import Fields, Grid

SIGMA2 = 5.0
NUGGETS = (0.2, 1.0, 5.0)  # tau2 / sigma2
# nu and the rho at which the correlation at distance 140 is 1e-10.
RANGES = {0.5: 6.08, 1.0: 5.59, 1.5: 5.27}
BETA = (-3.0, 5.0)
PARAMETERS = ("sigma2", "rho", "nu", "tau2")
NEIGHBOURS = 15
RATES = torch.tensor([0.1, 2.0, 0.0, 0.1], dtype=torch.float64)  # of the Gamma priors


@dataclass(frozen=True, eq=False)
class Simulated:
    """Fields, and their true parameters (field, 4): sigma2, rho, nu and tau2."""

    fields: Fields
    theta: Tensor


def simulate(grid: Grid, n_fields: int, *, rng: np.random.Generator) -> Simulated:
    """Draw fields with random smoothness and nugget."""
    size = (int(grid.points[:, 0].max()) + 1, int(grid.points[:, 1].max()) + 1)
    places = tuple(grid.points.astype(int).T)
    n = len(grid.points)
    theta = np.empty((n_fields, 4))
    y = np.empty((n_fields, n))
    covariates = np.ones((n_fields, n, 2))
    for i in range(n_fields):
        nu = float(rng.choice(list(RANGES)))
        tau2 = SIGMA2 * float(rng.choice(NUGGETS))
        theta[i] = SIGMA2, RANGES[nu], nu, tau2
        covariates[i, :, 1] = np.cos(rng.uniform(-3.0, 3.0, n))
        field = stationary_field(size, rho=RANGES[nu], nu=nu, rng=rng)[places]
        noise = np.sqrt(tau2) * rng.standard_normal(n)
        y[i] = covariates[i] @ BETA + np.sqrt(SIGMA2) * field + noise
    fields = Fields(grid, torch.from_numpy(y), torch.from_numpy(covariates))
    return Simulated(fields, torch.from_numpy(theta))


def stationary_field(
    size: tuple[int, int], *, rho: float, nu: float, rng: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Draw a field of variance 1 on a grid of this size by circulant embedding."""
    spectrum = _spectrum(size, rho, nu)
    white = rng.standard_normal(spectrum.shape) + 1j * rng.standard_normal(spectrum.shape)
    field = np.fft.fft2(np.sqrt(spectrum / spectrum.size) * white).real
    return np.asarray(field[: size[0], : size[1]])


@cache
def _spectrum(
    size: tuple[int, int], rho: float, nu: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the eigenvalues of the covariance on a torus that contains the grid.

    The torus is so large that correlations at its half are below 1e-8, so that no eigenvalue is
    below -1e-6; negative ones are set to 0.
    """
    shape = [int(2 ** np.ceil(np.log2(max(2 * n, 40 * rho)))) for n in size]
    axes = [np.minimum(np.arange(n), n - np.arange(n)) for n in shape]
    distances = np.hypot(axes[0][:, None], axes[1][None])
    distinct, where = np.unique(distances, return_inverse=True)
    parts = torch.split(torch.from_numpy(distinct), 5000)
    values = torch.cat([matern(part, rho, nu) for part in parts])
    covariance = values.numpy()[where].reshape(distances.shape)
    return np.asarray(np.maximum(np.fft.fft2(covariance).real, 0.0))


def prior_gradient(eta: Tensor) -> Tensor:
    """Return the gradient (field, 4) of the log prior of eta, including the Jacobian.

    rho ~ Gamma(9, rate 2), log nu ~ N(1, 1), sigma2 and tau2 ~ Gamma(0.1, rate 0.1).
    """
    shapes = torch.tensor([0.1, 9.0, 0.0, 0.1], dtype=torch.float64)
    result = shapes - RATES * eta.exp()
    result[:, 2] = 1.0 - eta[:, 2]
    return result


def prior_curvature(eta: Tensor) -> Tensor:
    """Return minus the second derivatives (field, 4) of the log prior."""
    result = RATES * eta.exp()
    result[:, 2] = 1.0
    return result


def prior_value(eta: Tensor) -> Tensor:
    """Return the log prior (field,) of eta up to a constant."""
    theta = eta.exp()
    gammas = 0.1 * (eta[:, 0] - theta[:, 0] + eta[:, 3] - theta[:, 3])
    return gammas + 9.0 * eta[:, 1] - 2.0 * theta[:, 1] - 0.5 * (eta[:, 2] - 1.0) ** 2
