r"""Split-conformal intervals: their width is computed from structures that were held back from the
fit.

Lei et al. (2018), J. Am. Stat. Assoc. 113, 1094-1111, section 2.2, with scores in units of a
predicted standard deviation (section 5.2): s_i = |y_i - mean(x_i)| / sd(x_i) for m held-back
structures. The interval of a level is mean +- q sd, where q is the k-th smallest score and k =
ceil((m + 1) level). It contains the gap of a new, exchangeable structure with at least this
probability, for any model. Where k > m the interval would be infinite, and InputError is raised.
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
    """Scores (m,) of the structures that a run held back, in the order of their ids.

    Raises InputError unless every id has one finite score of at least 0.
    """

    ids: tuple[str, ...]
    scores: Floats

    def __post_init__(self) -> None:
        if (
            self.scores.shape != (len(self.ids),)
            or not (np.isfinite(self.scores) & (self.scores >= 0)).all()
        ):
            raise InputError(
                f"conformal scores: {len(self.ids)} ids and scores of shape {self.scores.shape}. "
                "Accepted: one finite number, 0 or more, for every id."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def reaches(self, level: float) -> bool:
        """Return whether there are enough scores for an interval of this level."""
        return len(self) >= smallest_calibration_set(level)

    def interval(self, level: float, *, mean: ArrayLike, sd: ArrayLike) -> tuple[Floats, Floats]:
        """Return the lower and upper ends (n,) of the interval of `level`.

        Parameters
        ----------
        level
            Coverage of the interval, in (0, 1).
        mean, sd
            Predicted means and standard deviations of a new observation, (n,), in eV.

        Raises
        ------
        InputError
            Where there are too few scores for the level.
        """
        centre = np.asarray(mean, dtype=np.float64)
        half_width = conformal_quantile(self.scores, level) * np.asarray(sd, dtype=np.float64)
        return centre - half_width, centre + half_width


def scores_of(gaps_eV: Floats, *, mean: Floats, sd: Floats) -> Floats:
    """Return |gap - mean| / sd (n,)."""
    return np.abs(gaps_eV - mean) / sd


def available(scores: ConformalScores | None) -> ConformalScores:
    """Return the scores; raises ConfigError, with what to do, where a run has none."""
    if scores is None:
        raise ConfigError(
            "interval is 'conformal', but this run held no structures back. Transfer again with "
            "`--conformal-share 0.2` (on the page Train under More settings, Hold back for "
            "conformal intervals), or ask for prediction or credible."
        )
    return scores


def too_few(n: int, *, level: float) -> str:
    """Return a warning where `n` held-back structures are too few for `level`, else an
    empty text.
    """
    if n >= smallest_calibration_set(level):
        return ""
    return (
        f"{n} held-back structures are too few for {100 * level:g} % conformal intervals, which "
        f"need {smallest_calibration_set(level)}: read those of {highest_percent(n)} % or less, or "
        "hold back more."
    )


def highest_percent(n: int) -> int:
    """Return the highest level, in whole per cent, for which `n` held-back structures give an
    interval.
    """
    return math.floor(100.0 * n / (n + 1.0) + _ROUNDING)


def smallest_calibration_set(level: float) -> int:
    """Return how many structures a conformal interval of `level` needs: 1 / (1 - level) - 1,
    rounded up.

    >>> smallest_calibration_set(0.95)
    19
    """
    return max(1, math.ceil(1.0 / (1.0 - level) - 1.0 - _ROUNDING))


def conformal_quantile(scores: ArrayLike, level: float) -> float:
    """Return the conformal quantile: a new score exceeds it with probability of at most 1 -
    `level`.

    This holds if the scores are exchangeable.

    Parameters
    ----------
    scores
        Scores (n,) of structures that were not used for training, such as |gap - mean| / sd.
    level
        Coverage, in (0, 1).

    Raises
    ------
    InputError
        Where there are too few scores for the level, so that the interval would be infinite.

    >>> conformal_quantile([0.5, 1.0, 2.0], 0.75)
    2.0
    """
    values = np.asarray(scores, dtype=np.float64)
    n_needed = smallest_calibration_set(level)
    n = values.size
    if n < n_needed:
        raise InputError(
            f"{n} calibration structures are too few for a {100 * level:g} % conformal interval, "
            f"which needs at least {n_needed}. Hold out more, or ask for {highest_percent(n)} % or "
            "less."
        )
    k = math.ceil((n + 1) * level - _ROUNDING)
    return float(np.sort(values)[k - 1])
