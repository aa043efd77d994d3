"""Predictions without intervals for structures that are too unlike those that were learned from.

Loads no torch.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from bandgap.predictions.table import Predictions

SPREADS: Final = ("sd_mean_eV", "sd_new_eV", "quantiles_mean", "quantiles_new")


def withhold_intervals(predictions: Predictions, *, below_p: float) -> Predictions:
    """Return the predictions without standard deviations and intervals of unusual structures.

    These are structures with a p-value of the domain below `below_p`, and those that are not
    assessable. Their means stay. They get the status warning and the reason as problem.
    """
    assert predictions.domain_p is not None
    is_predicted = np.isfinite(predictions.mean_eV)
    is_assessable = np.isfinite(predictions.domain_p[0])
    is_withheld = is_predicted & ~(predictions.domain_p[0] >= below_p)
    if not is_withheld.any():
        return predictions
    spreads: dict[str, Any] = {
        name: np.where(is_withheld, np.nan, getattr(predictions, name)) for name in SPREADS
    }
    problem = list(predictions.problem)
    status = list(predictions.status)
    for i in np.flatnonzero(is_withheld).tolist():
        reason = f"domain_p is below {below_p:g}" if is_assessable[i] else "not assessable"
        problem[i] = "; ".join(filter(None, (problem[i], f"Interval withheld: {reason}.")))
        status[i] = "warning"
    return replace(predictions, **spreads, problem=tuple(problem), status=tuple(status))
