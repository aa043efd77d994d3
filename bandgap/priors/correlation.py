r"""The rate lam of the penalized-complexity prior at which the network's output has a wanted correlation with a label.

Abba (2023), section 2.4, sets lam "so that the correlation between f(x_i; theta) and Y_i is 0.5"; read literally, at a
fixed target input, theta from the whole prior, Y = f + noise:

    corr = mean_j sqrt(V_j / (V_j + sigma^2)),   V_j = Var f(x_j; theta) = base_j + sum_l E[tau c_l] gains_jl

with f linearised at theta_hat. In the point estimate's case (in units of sigma, which cancels) base = 0, gains = alpha
and sigma = 1; in the variational case gains_jl = sum_k s_k^2 (df(x_j) / dtheta_k)^2 over layer l and base_j is their
sum. corr falls with lam, from 1 to its value at the base model.
"""

import math
from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.priors.penalized_complexity import DistanceTerms, inverse_distance

SMALLEST, LARGEST = 1e-3, 1e3  # rates between which the wanted one is sought
N_WEIGHTS, N_QUANTILES = 64, 200  # draws of c, and mid-quantiles of the distance at each

BLOCK = 1_000_000  # numbers at once


class UnreachableCorrelationError(ConfigError):
    """No rate gives the wanted correlation."""


@dataclass(frozen=True, eq=False)
class OutputVariance:
    """Linearised prior variance of f at n inputs: base (n,), its gain by tau c_l (n, L), and the noise's variance."""

    base: Tensor
    gains: Tensor
    noise: float

    def correlation(self, tau_c: Tensor) -> float:
        """Return the correlation of output and label where E[tau c_l] is `tau_c` (L,), averaged over the inputs."""
        variance = self.base + self.gains @ tau_c
        return float(torch.sqrt(variance / (variance + self.noise)).mean())


def rate_for_correlation(
    wanted: float,
    slopes: Tensor,
    weights: Tensor,
    variance: OutputVariance,
    *,
    c0: float,
    generator: torch.Generator,
) -> float:
    """Return lam at which the correlation is `wanted`, for a distance of rates slopes c (J, L) and weights (J,).

    Raises UnreachableCorrelationError where no rate between 0.001 and 1000 has it: the base model alone is too certain,
    or not enough.
    """
    concentration = torch.full((N_WEIGHTS, slopes.shape[1]), c0, dtype=torch.float64)
    c = torch._sample_dirichlet(concentration, generator=generator)
    quantiles = (torch.arange(N_QUANTILES, dtype=torch.float64) + 0.5) / N_QUANTILES
    exponential = -torch.log1p(-quantiles)
    block = max(1, BLOCK // (N_QUANTILES * slopes.shape[0]))

    def correlation(lam: float) -> float:
        terms = [DistanceTerms(weights, rows[:, None] @ slopes.T) for rows in torch.split(c, block)]
        tau = torch.cat([inverse_distance(exponential / lam, some).mean(-1) for some in terms])
        return variance.correlation((tau[:, None] * c).mean(0))

    high, low = correlation(SMALLEST), correlation(LARGEST)
    if not low < wanted < high:
        raise UnreachableCorrelationError(
            f"lam = corr: no rate between {SMALLEST:g} and {LARGEST:g} gives a correlation of {wanted:g} (these give "
            f"{high:.3f} and {low:.3f}; the second is nearly that of the source's own uncertainty). Set lam to a "
            "number, such as 1, or corr to one in between."
        )
    return float(
        math.exp(
            brentq(
                lambda u: correlation(math.exp(u)) - wanted, math.log(SMALLEST), math.log(LARGEST)
            )
        )
    )
