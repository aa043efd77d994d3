"""The rate lam of the penalized-complexity prior for a given correlation of output and label.

Abba (2023), section 2.4, sets lam "so that the correlation between f(x_i; theta) and Y_i is 0.5".
Read literally, at a fixed target input, theta from the whole prior, Y = f + noise:

    corr = mean_j sqrt(V_j / (V_j + sigma^2)),
    V_j = Var f(x_j; theta) = base_j + sum_l E[tau c_l] gains_jl

with f linearised at theta_hat. For the point estimate (in units of sigma, which cancels) base = 0,
gains = alpha and sigma = 1. In the variational case gains_jl = sum_k s_k^2 (df(x_j) / dtheta_k)^2
over layer l, and base_j is their sum. corr falls with lam, from 1 to its value at the base model.
"""

import math
from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.priors.penalized_complexity import DistanceTerms, inverse_distance

# Range in which the rate is searched.
SMALLEST = 1e-3
LARGEST = 1e3
N_WEIGHTS = 64  # draws of c
N_QUANTILES = 200  # mid-quantiles of the distance for each draw

BLOCK = 1_000_000  # numbers computed together


class UnreachableCorrelationError(ConfigError):
    """No rate gives this correlation; one gives `middle`, half-way between all that rates give."""

    def __init__(self, message: str, middle: float) -> None:
        super().__init__(message)
        self.middle = middle


@dataclass(frozen=True, eq=False)
class OutputVariance:
    """Linearised prior variance of f at n inputs.

    Base (n,), its gains by tau c_l (n, L), and the variance of the noise.
    """

    base: Tensor
    gains: Tensor
    noise: float

    def correlation(self, tau_c: Tensor) -> float:
        """Return the correlation of output and label, mean over the inputs.

        `tau_c` (L,) is E[tau c_l].
        """
        variance = self.base + self.gains @ tau_c
        return float(torch.sqrt(variance / (variance + self.noise)).mean())


def rate_for_correlation(
    target: float,
    slopes: Tensor,
    weights: Tensor,
    variance: OutputVariance,
    *,
    c0: float,
    generator: torch.Generator,
) -> float:
    """Return the rate lam at which output and label have this correlation.

    Parameters
    ----------
    target
        The correlation.
    slopes, weights
        Rates slopes c of the distance, (J, L) and c (L,), and its weights (J,).
    variance
        Variance of the output.
    c0
        Concentration of the Dirichlet prior of c.
    generator
        Generator of the draws of c.

    Raises
    ------
    UnreachableCorrelationError
        No rate between 0.001 and 1000 gives the correlation.
    """
    concentration = torch.full((N_WEIGHTS, slopes.shape[1]), c0, dtype=torch.float64)
    c = torch._sample_dirichlet(concentration, generator=generator)
    quantiles = (torch.arange(N_QUANTILES, dtype=torch.float64) + 0.5) / N_QUANTILES
    exponential = -torch.log1p(-quantiles)
    block = max(1, BLOCK // (N_QUANTILES * slopes.shape[0]))

    def correlation(lam: float) -> float:
        terms = [DistanceTerms(weights, rows[:, None] @ slopes.T) for rows in torch.split(c, block)]
        tau = torch.cat([inverse_distance(exponential / lam, part).mean(-1) for part in terms])
        return variance.correlation((tau[:, None] * c).mean(0))

    high = correlation(SMALLEST)
    low = correlation(LARGEST)
    if not low < target < high:
        raise UnreachableCorrelationError(
            f"lam = corr: no rate between {SMALLEST:g} and {LARGEST:g} gives a correlation of "
            f"{target:g} (these give {high:.3f} and {low:.3f}; the second is nearly that of the "
            "source's own uncertainty). Set lam to a number, or corr to one in between.",
            (low + high) / 2,
        )
    log_rate = brentq(
        lambda u: correlation(math.exp(u)) - target, math.log(SMALLEST), math.log(LARGEST)
    )
    return float(math.exp(log_rate))
