r"""Split-conformal intervals: how wide they must be is read off structures that were held back from the fit.

Lei et al. (2018), J. Am. Stat. Assoc. 113, 1094-1111, section 2.2, with scores in units of a predicted spread (section
5.2): s_i = |y_i - mean(x_i)| / sd(x_i) for m held-back structures; the interval of a level is mean +- q sd with q the
k-th smallest score, k = ceil((m + 1) level). It covers the gap of a new, exchangeable structure with that probability
or more, whatever the model is; where k > m it would be infinite, and is refused.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.foundation.errors import ConfigError, InputError

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # 1 / (1 - 0.95) - 1 is 19.000000000000018 in floating point


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """Scores (m,) of the structures that a run held back, in the order of their ids. Raises InputError on others."""

    ids: tuple[str, ...]
    scores: Floats

    def __post_init__(self) -> None:
        if self.scores.shape != (len(self.ids),) or not (np.isfinite(self.scores) & (self.scores >= 0)).all():
            raise InputError(
                f"conformal scores: {len(self.ids)} ids and scores of shape {self.scores.shape}. Accepted: one finite "
                "number, 0 or more, for every id."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def reaches(self, level: float) -> bool:
        """Return whether there are enough of them for an interval of this level."""
        return len(self) >= smallest_calibration_set(level)

    def interval(self, level: float, *, mean: ArrayLike, sd: ArrayLike) -> tuple[Floats, Floats]:
        """Return the ends (n,) of the interval of `level` about `mean` (n,), `sd` (n,) being the predicted spread.

        Raises InputError where the scores are too few for the level.
        """
        return conformal_interval(mean, sd=sd, factor=conformal_quantile(self.scores, level))


def scores_of(gaps_eV: Floats, *, mean: Floats, sd: Floats) -> Floats:
    """Return |gap - mean| / sd (n,)."""
    return np.abs(gaps_eV - mean) / sd


def available(scores: ConformalScores | None) -> ConformalScores:
    """Return the scores, or raise ConfigError with what to do where a run has none."""
    if scores is None:
        raise ConfigError(
            "interval is 'conformal', but this run held no structures back. Transfer again with --conformal-share 0.2 "
            "(page Train: Hold back for conformal intervals), or ask for prediction or credible."
        )
    return scores


def too_few(n: int, *, level: float) -> str:
    """Say what can be read of `n` held-back structures that are too few for `level`; empty where they are enough."""
    if n >= smallest_calibration_set(level):
        return ""
    return (
        f"{n} held-back structures are too few for {100 * level:g} % conformal intervals, which need "
        f"{smallest_calibration_set(level)}: read those of {highest_percent(n)} % or less, or hold back more."
    )


def highest_percent(n: int) -> int:
    """Return the highest level, in whole per cent, that `n` held-back structures give an interval of."""
    return math.floor(100.0 * n / (n + 1.0) + _ROUNDING)


def smallest_calibration_set(level: float) -> int:
    """Return how many held-out structures a conformal interval of `level` needs: 1 / (1 - level) - 1, rounded up.

    >>> smallest_calibration_set(0.95)
    19
    """
    _check_level(level)
    return max(1, math.ceil(1.0 / (1.0 - level) - 1.0 - _ROUNDING))


def conformal_quantile(scores: ArrayLike, level: float) -> float:
    """Return the q that a new score exceeds with probability 1 - `level` or less, if scores are exchangeable.

    `scores` (n,) are those of structures that took no part in training, such as |gap - mean| / sd. Raises InputError
    where they are too few for the level: the interval would be infinite.

    >>> conformal_quantile([0.5, 1.0, 2.0], 0.75)
    2.0
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise InputError(f"conformal scores have shape {values.shape}. Accepted: one row of finite numbers.")
    needed, n = smallest_calibration_set(level), values.size
    if n < needed:
        raise InputError(
            f"{n} calibration structures are too few for a {100 * level:g} % conformal interval, which needs at least "
            f"{needed}. Hold out more, or ask for {highest_percent(n)} % or less."
        )
    k = math.ceil((n + 1) * level - _ROUNDING)
    return float(np.sort(values)[k - 1])


def conformal_interval(mean: ArrayLike, *, sd: ArrayLike, factor: float) -> tuple[Floats, Floats]:
    """Return mean - factor sd and mean + factor sd (n,), `factor` being the conformal quantile of |gap - mean| / sd."""
    centre, half = np.asarray(mean, dtype=np.float64), factor * np.asarray(sd, dtype=np.float64)
    return centre - half, centre + half


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ConfigError(f"level is {level:g}. Accepted: above 0 and below 1, such as 0.95.")
