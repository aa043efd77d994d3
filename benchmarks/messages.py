"""Messages of PBP and SSPBP compared with draws, as in table 3.1 of Ott (2022).

T = max(X W, 0) of two normal variables, compared with the normal message of PBP and with the atom
and slab of SSPBP. The distance is the squared maximum mean discrepancy with kernel exp(-(x - y)^2)
(Gretton et al., 2012; the biased estimate, with the diagonal).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.signal import fftconvolve
from scipy.special import ndtr
from scipy.stats import truncnorm

from bandgap.foundation.errors import InputError
from bandgap.research.assumed_density.belief import Floats
from bandgap.research.assumed_density.rectified import rectified_moments

# Step of the grid. The kernel's curvature causes a relative error of STEP^2 / 4.
STEP: Final = 0.002
REACH: Final = 6.0  # The kernel is below 3e-16 beyond it.

# Mean and variance of X and of W.
PAIRS: Final = (
    (0.0, 1.0, 0.0, 1.0),
    (1.0, 1.0, 3.0, 1.0),
    (1.0, 1.0, -3.0, 1.0),
    (3.0, 1.0, 3.0, 1.0),
    (3.0, 1.0, -3.0, 1.0),
)


@dataclass(frozen=True)
class Distances:
    """A row of table 3.1: percent of zeros, and squared distances from draws, PBP and SSPBP."""

    x_mean: float
    x_variance: float
    w_mean: float
    w_variance: float
    zeros_percent: float
    same: float
    pbp: float
    sspbp: float


def message_distances(*, draws: int = 10_000, seed: int = 0) -> list[Distances]:
    """Return table 3.1."""
    rng = np.random.default_rng(seed)
    return [_row(row, draws, rng) for row in PAIRS]


def _row(row: tuple[float, float, float, float], draws: int, rng: np.random.Generator) -> Distances:
    x_mean, x_variance, w_mean, w_variance = row

    def rectified() -> Floats:
        x = x_mean + np.sqrt(x_variance) * rng.standard_normal(draws)
        w = w_mean + np.sqrt(w_variance) * rng.standard_normal(draws)
        values: Floats = np.maximum(x * w, 0.0)
        return values

    mean = np.array(x_mean * w_mean)
    variance = np.array(x_variance * w_mean**2 + w_variance * (x_mean**2 + x_variance))
    normal_mean, normal_variance = (
        part.numpy() for part in rectified_moments(torch.tensor(mean), torch.tensor(variance))
    )
    r = np.sqrt(variance)
    slab_mean, slab_variance = truncnorm.stats(-mean / r, np.inf, loc=mean / r)
    on = rng.random(draws) < ndtr(mean / r)
    draws_of_product = rectified()
    other_draws = rectified()
    plain = normal_mean + np.sqrt(normal_variance) * rng.standard_normal(draws)
    atom = np.where(on, r * (slab_mean + np.sqrt(slab_variance) * rng.standard_normal(draws)), 0.0)
    zeros = 100.0 * float(np.mean(draws_of_product == 0.0))
    distances = (
        squared_distance(draws_of_product, sample) for sample in (other_draws, plain, atom)
    )
    return Distances(*row, zeros, *distances)


def squared_distance(a: Floats, b: Floats) -> float:
    """Return the squared maximum mean discrepancy of samples (n,) and (m,), the biased estimate.

    It is computed on a fine grid: each number is distributed over the two neighbouring points.

    >>> x = np.array([0.0, 0.5, 2.0])
    >>> squared_distance(x, x)
    0.0
    """
    if min(a.size, b.size) == 0 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise InputError(
            f"squared distance of samples of {a.size} and {b.size} numbers. "
            "Accepted: one or more finite numbers."
        )
    lowest = min(a.min(), b.min())
    points = int((max(a.max(), b.max()) - lowest) / STEP) + 3

    def shares(sample: Floats) -> Floats:
        place = (sample - lowest) / STEP
        below = np.floor(place).astype(np.int64)
        fraction = place - below
        weights = np.zeros(points)
        np.add.at(weights, below, (1.0 - fraction) / sample.size)
        np.add.at(weights, below + 1, fraction / sample.size)
        return weights

    difference = shares(a) - shares(b)
    offsets = STEP * np.arange(-int(REACH / STEP), int(REACH / STEP) + 1)
    around = fftconvolve(difference, np.exp(-(offsets**2)))[offsets.size // 2 :][:points]
    return float(difference @ around)
