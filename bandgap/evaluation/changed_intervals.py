"""Coverage of a run's held-out structures by p-value, as intervals are withheld or widened.

Loads no torch.
"""

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.withholding import IntervalChanges, is_below

LEAST_PERCENTAGE = 20  # structures from which a coverage is a percentage too


def changed_coverage_sentence(
    heldout: HeldOut | None,
    changes: IntervalChanges,
    *,
    level: float,
    kind: IntervalKind = "prediction",
) -> str:
    """Return how many intervals contain the gap: of all, and of those changed or not.

    Held-out structures are None for a run without any. Errors are those of `Predictions.interval`.
    """
    if heldout is None or heldout.predictions.domain_p is None:
        return (
            "No held-out structure of this run has a p-value, so that the coverage of the other "
            "intervals is not measured."
        )
    changed = changes.apply(heldout.predictions)
    is_changed = is_below(heldout.predictions, changes.highest_p)  # or not assessable
    is_widened = is_changed & np.isfinite(changed.sd_new_eV) & bool(changes.widen_below_p)
    covered = []
    for predictions in (heldout.predictions, changed):
        lower, upper = predictions.interval(level, kind)
        covered.append((lower <= heldout.gaps_eV) & (heldout.gaps_eV <= upper))
    unchanged, wider = covered
    text = (
        f"{100 * level:.3g} % intervals of the held-out structures of this run contain the gap of "
        f"{_share(unchanged)}; with a domain_p of {changes.highest_p:g} or more, of "
        f"{_share(unchanged[~is_changed])}."
    )
    if is_changed.any():
        text += f" Of the others: {_share(unchanged[is_changed])} as they are"
        if is_widened.any():
            text += f", {_share(wider[is_widened])} widened {changes.widen_factor:g} times"
        text += "."
    return text


def _share(is_covered: NDArray[np.bool_]) -> str:
    text = f"{is_covered.sum():,} of {is_covered.size:,}"
    if is_covered.size < LEAST_PERCENTAGE:
        return text
    return f"{text} ({100 * is_covered.mean():.1f} %)"
