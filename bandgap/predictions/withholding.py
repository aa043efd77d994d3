"""Other intervals for structures that are too unlike those that were learned from: wider, or none.

Loads no torch.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.predictions.table import LEVELS, Predictions

Floats = NDArray[np.float64]

SPREADS: Final = ("sd_mean_eV", "sd_new_eV", "quantiles_mean", "quantiles_new")
# In every sentence of `Predictions.problem` on a wider interval.
WIDENED: Final = "Interval widened"


@dataclass(frozen=True)
class IntervalChanges:
    """P-values of the domain below which intervals are withheld and widened, 0 for never.

    `widen_factor` is the factor of the standard deviations of widened intervals.
    """

    withhold_below_p: float = 0.0
    widen_below_p: float = 0.0
    widen_factor: float = 2.0

    def __bool__(self) -> bool:
        return bool(self.withhold_below_p or self.widen_below_p)

    @property
    def highest_p(self) -> float:
        """The p-value below which an interval is changed in some way."""
        return max(self.withhold_below_p, self.widen_below_p)

    def apply(self, predictions: Predictions) -> Predictions:
        """Return the predictions with changed intervals; they must have p-values."""
        if self.withhold_below_p:
            predictions = withhold_intervals(predictions, below_p=self.withhold_below_p)
        if self.widen_below_p:
            predictions = widen_intervals(
                predictions, below_p=self.widen_below_p, factor=self.widen_factor
            )
        return predictions


def withhold_intervals(predictions: Predictions, *, below_p: float) -> Predictions:
    """Return the predictions without standard deviations and intervals of unusual structures.

    These are structures with a p-value of the domain below `below_p`, and those that are not
    assessable. Their means stay. They get the status warning and the reason as problem.
    """
    is_withheld = is_below(predictions, below_p)
    spreads: dict[str, Any] = {
        name: np.where(is_withheld, np.nan, getattr(predictions, name)) for name in SPREADS
    }
    return _with_reasons(
        replace(predictions, **spreads), is_withheld, "Interval withheld", below_p=below_p
    )


def widen_intervals(predictions: Predictions, *, below_p: float, factor: float) -> Predictions:
    """Return the predictions with wider intervals of unusual structures.

    The structures are those of `withhold_intervals`, except where an interval is withheld already.
    Standard deviations and deviations of quantiles from the mean are multiplied; the means stay.
    Where the labels contain metals, `p_metal` stays, and the gaps above zero are stretched about
    their own mean. An interval of any level contains the one before. The rows get the status
    warning and the reason as problem.

    Parameters
    ----------
    predictions
        Predictions with p-values of the domain.
    below_p
        P-value below which intervals are widened.
    factor
        Factor of the standard deviations, above 1.
    """
    is_widened = is_below(predictions, below_p) & np.isfinite(predictions.sd_new_eV)
    return _with_reasons(
        with_wider_rows(predictions, is_widened, factor=factor),
        is_widened,
        f"{WIDENED} {factor:g} times",
        below_p=below_p,
    )


def with_wider_rows(
    predictions: Predictions, is_widened: NDArray[np.bool_], *, factor: float
) -> Predictions:
    """Return the predictions with wider intervals in some rows (n,), as `widen_intervals`."""
    rows = np.flatnonzero(is_widened)
    spreads = {name: getattr(predictions, name).copy() for name in SPREADS}
    for name in ("sd_mean_eV", "sd_new_eV"):
        spreads[name][rows] *= factor
    mean_eV = predictions.mean_eV[rows]
    spreads["quantiles_mean"][:, rows] = _stretched(
        predictions.quantiles_mean[:, rows], mean_eV, factor
    )
    quantiles_new = predictions.quantiles_new[:, rows]
    if predictions.p_metal is None:
        wider = _stretched(quantiles_new, mean_eV, factor)
    else:
        is_zero = quantiles_new <= 0.0  # quantiles of metals
        mean_above_zero_eV = np.where(is_zero, 0.0, quantiles_new).sum(axis=0) / np.maximum(
            (~is_zero).sum(axis=0), 1
        )
        wider = _stretched(quantiles_new, mean_above_zero_eV, factor)
        wider = np.where(is_zero, 0.0, np.maximum(wider, 0.0))
    spreads["quantiles_new"][:, rows] = wider
    return replace(predictions, **spreads)


def _stretched(quantiles_eV: Floats, centres_eV: Floats, factor: float) -> Floats:
    """Return quantiles (199, k) with their deviations from centres (k,) multiplied.

    Those from the median on are upper ends of intervals and never decrease, the others are lower
    ends and never increase.
    """
    stretched = centres_eV + factor * (quantiles_eV - centres_eV)
    is_upper = LEVELS[:, None] >= 0.5
    return np.where(
        is_upper, np.maximum(quantiles_eV, stretched), np.minimum(quantiles_eV, stretched)
    )


def without_widening(problem: str) -> str:
    """Return the problems of a structure without the sentences on a wider interval.

    >>> without_widening("no hydrogen; Interval widened 2 times: not assessable.")
    'no hydrogen'
    """
    return "; ".join(part for part in problem.split("; ") if WIDENED not in part)


def is_below(predictions: Predictions, p: float) -> NDArray[np.bool_]:
    """Return which predicted structures (n,) have a smaller p-value, or are not assessable."""
    assert predictions.domain_p is not None
    has_smaller_p: NDArray[np.bool_] = ~(predictions.domain_p >= p)  # NaN: not assessable
    has_smaller_p &= np.isfinite(predictions.mean_eV)
    return has_smaller_p


def _with_reasons(
    predictions: Predictions, is_changed: NDArray[np.bool_], change: str, *, below_p: float
) -> Predictions:
    """Return the predictions with the reason as problem and the status warning."""
    assert predictions.domain_p is not None
    is_assessable = np.isfinite(predictions.domain_p)
    problem = list(predictions.problem)
    status = list(predictions.status)
    for i in np.flatnonzero(is_changed).tolist():
        reason = f"domain_p is below {below_p:g}" if is_assessable[i] else "not assessable"
        problem[i] = "; ".join(filter(None, (problem[i], f"{change}: {reason}.")))
        status[i] = "warning"
    return replace(predictions, problem=tuple(problem), status=tuple(status))
