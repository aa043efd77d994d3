"""Tables on the probability of a metal of held-out structures: calibration and confusion."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bandgap.evaluation.calibration import chance_range
from bandgap.evaluation.heldout import HeldOut
from bandgap.foundation.errors import InputError
from bandgap.predictions.gap_distribution import ZERO_EV

GROUPS = 10
LEAST_IN_GROUP = 10  # structures
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


def _of(heldout: HeldOut) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    probability = heldout.predictions.p_metal
    if probability is None:
        raise InputError(
            "The labels of this run contain no or few metals, so it has no probability of a metal."
        )
    return np.asarray(probability, dtype=np.float64), heldout.gaps_eV <= ZERO_EV
