"""Target windows of band gaps: the probability that the gap of a structure lies in one.

The probabilities follow from the stored quantiles of a new observation, with the same interpolation
as the intervals: linear in the normal score between two quantiles, and beyond the outermost ones.
They are exact for a normal distribution, and the window that is the interval of a level has the
probability of that level. The quantiles themselves are exact, so that for any distribution the
error at each end of a window is below 0.005, the distance between two of their probabilities.
Distributions with a point mass, such as a share of metals at 0 eV, are accepted: both ends belong
to the window. Loads no torch.
"""

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from bandgap.foundation.errors import ConfigError, quoted

Floats = NDArray[np.float64]

WINDOW_COLUMNS: Final = ("window", "p_window")
"""Further columns of a table of predictions for which a window was asked."""

DEPTH_NODES = 16  # nodes of the integral over the depth in a window

_ACCEPTED = "Accepted: two numbers in eV, FROM:TO with 0 <= FROM < TO, such as 1.3:1.7."


@dataclass(frozen=True)
class Window:
    """Band gaps from `lower_eV` to `upper_eV`, both included.

    A gap is not negative. A window from 0 eV therefore includes what a model predicts below zero.
    Raises ConfigError unless 0 <= `lower_eV` < `upper_eV`.
    """

    lower_eV: float
    upper_eV: float

    def __post_init__(self) -> None:
        if not (0 <= self.lower_eV < self.upper_eV and math.isfinite(self.upper_eV)):
            raise ConfigError(f"window is {self.lower_eV:g}:{self.upper_eV:g}. {_ACCEPTED}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the window of a text FROM:TO.

        >>> Window.parse("1.3:1.7")
        Window(lower_eV=1.3, upper_eV=1.7)
        """
        lower, _, upper = text.partition(":")
        try:
            return cls(float(lower), float(upper))
        except ValueError:
            raise ConfigError(f"window is {quoted(text)}. {_ACCEPTED}") from None

    def __str__(self) -> str:
        return f"{self.lower_eV:g}:{self.upper_eV:g}"

    @property
    def label(self) -> str:
        """The window in words: "1.3 to 1.7 eV"."""
        return f"{self.lower_eV:g} to {self.upper_eV:g} eV"

    @property
    def half_width_eV(self) -> float:
        """Half of the width, the largest depth that a gap can have in the window."""
        return (self.upper_eV - self.lower_eV) / 2

    def probability(self, quantiles_eV: Floats, probabilities: Floats) -> Floats:
        """Return the probability (n,) that a gap lies in this window.

        Parameters
        ----------
        quantiles_eV
            Quantiles of the gap of n structures, (k, n), NaN for refused ones.
        probabilities
            Probabilities of the quantiles, (k,), ascending, in (0, 1).
        """
        upper = probability_below(quantiles_eV, probabilities, self.upper_eV, inclusive=True)
        if self.lower_eV == 0:
            return upper
        return upper - probability_below(quantiles_eV, probabilities, self.lower_eV)

    def expected_depth_eV(self, quantiles_eV: Floats, probabilities: Floats) -> Floats:
        """Return the expected depth (n,) in eV at which a gap lies in this window.

        The depth is the distance to the nearer end of the window, and zero outside. Its expectation
        is the expected improvement over a gap at the end of the window (Jones, Schonlau and Welch,
        1998, section 4.1, with a window in place of a bound). It is computed as the integral of the
        probability of the windows that are narrower by the depth at both ends.

        Parameters are those of `probability`.
        """
        depths, weights = depth_nodes(self, DEPTH_NODES)
        total = np.zeros(quantiles_eV.shape[1])
        for depth, weight in zip(depths, weights, strict=True):
            narrow = Window(self.lower_eV + depth, self.upper_eV - depth)
            total += weight * narrow.probability(quantiles_eV, probabilities)
        return total


def depth_nodes(window: Window, count: int) -> tuple[Floats, Floats]:
    """Return depths (count,) in a window in eV and their weights, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    half = window.half_width_eV
    return half * (nodes + 1) / 2, half * weights / 2


def probability_below(
    quantiles_eV: Floats, probabilities: Floats, value_eV: float, *, inclusive: bool = False
) -> Floats:
    """Return the probability (n,) that each of n quantities is below a value.

    Parameters
    ----------
    quantiles_eV
        Quantiles of the n quantities, (k, n), ascending along the first axis, in eV.
    probabilities
        Probabilities of the quantiles, (k,), ascending, in (0, 1).
    value_eV
        Value in eV.
    inclusive
        Whether a point mass at the value counts.

    Returns
    -------
    Floats
        Probabilities, NaN where the quantiles are NaN.
    """
    is_below = quantiles_eV <= value_eV if inclusive else quantiles_eV < value_eV
    n_below = np.count_nonzero(is_below, axis=0)
    right = np.clip(n_below, 1, probabilities.size - 1)
    columns = np.arange(quantiles_eV.shape[1])
    left_value = quantiles_eV[right - 1, columns]
    step = quantiles_eV[right, columns] - left_value
    scores = ndtri(probabilities)
    left_score = scores[right - 1]
    # Equal outermost quantiles are a point mass, beyond which nothing is left.
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = (value_eV - left_value) / step
    result: Floats = ndtr(left_score + fraction * (scores[right] - left_score))
    result[(step == 0) & (n_below == 0)] = 0.0
    result[(step == 0) & (n_below == probabilities.size)] = 1.0
    return result


def normal_probability(window: Window, means_eV: ArrayLike, sds_eV: ArrayLike) -> Floats:
    """Return the probability that normal quantities lie in a window, with zero as in `Window`."""
    means = np.asarray(means_eV, dtype=np.float64)
    sds = np.asarray(sds_eV, dtype=np.float64)
    upper: Floats = ndtr((window.upper_eV - means) / sds)
    if window.lower_eV == 0:
        return upper
    lower: Floats = ndtr((window.lower_eV - means) / sds)
    return upper - lower
