r"""Comparison of a scale's posterior draws with draws of its prior: did the data move it at all?

D is the largest difference between the two empirical distribution functions (Kolmogorov and
Smirnov). Of m effective posterior draws and k prior draws of the same distribution, D is below

    D_99 = 1.63 sqrt(1 / m + 1 / k)

with probability 0.99 (Smirnov, 1948). This is the Monte-Carlo error of D. The posterior counts as
equal to the prior if D is at most `TOLERANCE` + D_99: the draws then do not show that the
distributions differ by more than `TOLERANCE` in any probability. If D_99 is above `MOST_ERROR`, the
draws are too few for a statement.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.inference import diagnostics

QUANTILE_99 = 1.63  # of the Kolmogorov distribution
TOLERANCE = 0.05
MOST_ERROR = 0.2
LEAST_DRAWS = 4  # of every chain, below which effective draws cannot be estimated


@dataclass(frozen=True)
class PriorComparison:
    """Distance of a scale's posterior from its prior.

    `error` is the 99 % quantile of the distance between samples of one distribution.
    """

    scale: str
    distance: float
    error: float
    effective_draws: float

    @property
    def equals_prior(self) -> bool:
        """Whether the draws do not show a difference of more than `TOLERANCE`."""
        return self.error <= MOST_ERROR and self.distance <= TOLERANCE + self.error

    @property
    def sentence(self) -> str:
        """A message if the posterior equals the prior, else an empty text."""
        if not self.equals_prior:
            return ""
        return (
            f"The posterior of the scale {self.scale} equals its prior: their distribution "
            f"functions differ by at most {self.distance:.2f}, with a Monte-Carlo error of "
            f"{self.error:.2f} ({self.effective_draws:,.0f} effective draws). The labels say "
            "nothing about this scale; the prior alone sets it. Compare the error with that of "
            "another prior, such as another rate lam."
        )


def equal_to_prior(stored: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a message for every scale whose posterior equals its prior.

    `stored` are the comparisons of a run, as in its manifest.
    """
    names = ("scale", "distance", "error", "effective_draws")
    comparisons = [PriorComparison(**{name: scale[name] for name in names}) for scale in stored]
    return [comparison.sentence for comparison in comparisons if comparison.equals_prior]


def compare_with_prior(
    scale: str, posterior: NDArray[np.floating[Any]], prior: NDArray[np.floating[Any]]
) -> PriorComparison | None:
    """Compare posterior draws (chain, draw) of a scale with independent draws (k,) of its prior.

    Both may be transformed by one increasing function, such as the logarithm. None if chains are
    too short or constant.
    """
    if posterior.shape[1] < LEAST_DRAWS or prior.size < LEAST_DRAWS or not np.ptp(posterior) > 0:
        return None
    effective = min(float(diagnostics.ess_bulk(posterior[..., None])[0]), float(posterior.size))
    if not effective > 0:
        return None
    error = QUANTILE_99 * math.sqrt(1.0 / effective + 1.0 / prior.size)
    distance = _kolmogorov_distance(posterior.ravel(), prior.ravel())
    return PriorComparison(scale, distance, error, effective)


def _kolmogorov_distance(a: NDArray[np.floating[Any]], b: NDArray[np.floating[Any]]) -> float:
    """Return the largest difference between the empirical distribution functions of two samples."""
    a = np.sort(a)
    b = np.sort(b)
    both = np.concatenate([a, b])
    below_a = np.searchsorted(a, both, side="right") / a.size
    below_b = np.searchsorted(b, both, side="right") / b.size
    return float(np.abs(below_a - below_b).max())
