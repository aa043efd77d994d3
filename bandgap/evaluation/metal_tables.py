"""Tables on the probability of a metal of held-out structures: calibration and confusion."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bandgap.evaluation.calibration import chance_range
from bandgap.evaluation.heldout import HeldOut
from bandgap.foundation.errors import InputError
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.table import Predictions

GROUPS = 10
LEAST_IN_GROUP = 10  # structures
_LEAST_SEMICONDUCTOR = 1e-6  # probability
THRESHOLD = 0.5  # probability from which a structure is called a metal


def p_metal_table(heldout: HeldOut) -> pd.DataFrame:
    """Return the share of metals by group of predicted probability, with the range of chance.

    The groups have equal sizes, at least `LEAST_IN_GROUP` structures if there are so many. The
    range is that of a calibrated model with the mean probability of the group. Raises InputError
    for a run without a probability of a metal.
    """
    probability, is_metal = _of(heldout)
    n_groups = max(1, min(GROUPS, probability.size // LEAST_IN_GROUP))
    rows = []
    for members in np.array_split(np.argsort(probability, kind="stable"), n_groups):
        mean = float(probability[members].mean())
        low, high = chance_range(members.size, mean)
        share = float(is_metal[members].mean())
        rows.append((mean, members.size, share, float(low[0]), float(high[0])))
    names = ["p_metal", "structures", "share_of_metals", "chance_lower", "chance_upper"]
    return pd.DataFrame(rows, columns=names)


def confusion_table(heldout: HeldOut) -> pd.DataFrame:
    """Return how many metals and semiconductors are predicted as each, at a probability of 0.5.

    Raises InputError for a run without a probability of a metal.
    """
    probability, is_metal = _of(heldout)
    is_called_metal = probability >= THRESHOLD
    return pd.DataFrame(
        {
            "known": ["metal", "semiconductor"],
            "predicted_metal": [
                int((is_called_metal & class_rows).sum()) for class_rows in (is_metal, ~is_metal)
            ],
            "predicted_semiconductor": [
                int((~is_called_metal & class_rows).sum()) for class_rows in (is_metal, ~is_metal)
            ],
        }
    )


@dataclass(frozen=True)
class MetalScores:
    """How well metals are told from semiconductors, and how well the gaps of those are known.

    Attributes
    ----------
    n, n_semiconductors
        Numbers of held-out structures, and of semiconductors among them.
    share_right, majority
        Share of structures whose class is predicted rightly, and share of the larger class.
    majority_class
        The larger class, "metal" or "semiconductor".
    rmse_eV, mean_gap_rmse_eV
        RMSE of the gap that the known semiconductors have if they are none, and that of their mean
        gap. NaN with fewer than two of them.
    """

    n: int
    n_semiconductors: int
    share_right: float
    majority: float
    majority_class: str
    rmse_eV: float
    mean_gap_rmse_eV: float

    @property
    def sentence(self) -> str:
        """Both verdicts in words."""
        text = (
            f"Metal or not: right in {100 * self.share_right:.0f} % of {self.n:,} held-out "
            f"structures ({100 * self.majority:.0f} % by always saying {self.majority_class})."
        )
        if self.n_semiconductors < 2:
            return text
        return (
            f"{text} Gap of the {self.n_semiconductors:,} semiconductors: RMSE "
            f"{self.rmse_eV:.2f} eV ({self.mean_gap_rmse_eV:.2f} eV by their mean gap)."
        )


def metal_scores(heldout: HeldOut) -> MetalScores:
    """Return the scores of both classes; raises InputError without a probability of a metal."""
    probability, is_metal = _of(heldout)
    share = float(is_metal.mean())
    gaps = heldout.gaps_eV[~is_metal]
    errors = gap_if_no_metal(heldout.predictions)[~is_metal] - gaps
    has_gaps = gaps.size > 1
    return MetalScores(
        n=is_metal.size,
        n_semiconductors=gaps.size,
        share_right=float(((probability >= THRESHOLD) == is_metal).mean()),
        majority=max(share, 1 - share),
        majority_class="metal" if share >= 0.5 else "semiconductor",
        rmse_eV=float(np.sqrt(np.mean(errors**2))) if has_gaps else math.nan,
        mean_gap_rmse_eV=float(gaps.std()) if has_gaps else math.nan,
    )


def gap_if_no_metal(predictions: Predictions) -> NDArray[np.float64]:
    """Return the mean gaps (n,) in eV that structures have if they are semiconductors.

    The mean of a prediction is this gap times the probability of a semiconductor.
    """
    if predictions.p_metal is None:
        return predictions.mean_eV
    return predictions.mean_eV / np.maximum(1.0 - predictions.p_metal, _LEAST_SEMICONDUCTOR)


def _of(heldout: HeldOut) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    probability = heldout.predictions.p_metal
    if probability is None:
        raise InputError(
            "The labels of this run contain no or few metals, so it has no probability of a metal."
        )
    return np.asarray(probability, dtype=np.float64), heldout.gaps_eV <= ZERO_EV
