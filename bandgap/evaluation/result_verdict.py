"""The verdict on a run in one sentence: what its predictions are good for.

The rules, in this order:

1. Below `FEWEST_JUDGED` held-out structures the run cannot be judged.
2. The run is not clearly better than the mean gap if its RMSE is above `NOT_BETTER` of the RMSE of
   the mean gap of the training structures, or if the difference of the squared errors is below two
   standard errors of its mean.
3. Chains with an R-hat above `RHAT_LIMIT` have not agreed.
4. Intervals are too narrow or too wide if chance does not explain their whole coverage curve
   (`curve_verdict`).
5. Predictions rank structures well from a rank correlation (Spearman) of `GOOD_RANK`, and roughly
   from `FAIR_RANK`. Single gaps can be used if the RMSE is at most `GOOD_SHARE` of that of the mean
   gap.

A run is good if 1 to 4 find nothing, it ranks well and single gaps can be used. The gap that a good
run is good to is `TYPICAL_SHARE` of the absolute errors, rounded up. A structure is far off if its
absolute error is above `FAR` robust standard deviations (1.4826 times the median absolute error)
and its gap is outside its 95 % interval.

Where the labels contain metals, most errors are near zero, and 2, 5 and the rule of what is far off
do not apply. There are two verdicts instead: whether metals and semiconductors are told apart more
often than by always naming the more frequent class (by two standard errors), and whether the gap
that semiconductors have if they are none has an RMSE of at most `NOT_BETTER` of that of their mean
gap. A run is good if both hold and the second is at most `GOOD_SHARE`. If neither holds it is not
usable, and cannot be judged with fewer than `FEWEST_JUDGED` semiconductors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.curve_verdict import CurveVerdict, curve_verdict
from bandgap.evaluation.error_context import NOT_BETTER, TINY
from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.metal_tables import metal_scores
from bandgap.evaluation.metrics import coverage, rmse
from bandgap.evaluation.reliability import coverage_of
from bandgap.foundation.quantities import RHAT_LIMIT, worst_of

Floats = NDArray[np.float64]
State = Literal["good", "fair", "poor", "unknown"]

FEWEST_JUDGED = 20  # one of them outside its 95 % interval is expected
GOOD_RANK = 0.8
FAIR_RANK = 0.5
GOOD_SHARE = 0.5
TYPICAL_SHARE = 0.95
FAR = 3.0
STANDARD_ERRORS = 2.0
LEVEL = 0.95


@dataclass(frozen=True)
class ResultVerdict:
    """The verdict on a run.

    Attributes
    ----------
    state
        "good", "fair" (to be used with care), "poor" (not to be used) or "unknown".
    word
        The state in a few words, for a badge.
    sentence
        What the predictions are good for, the error, the intervals and the structures far off.
    curve
        The verdict on the coverage curve, None with too few structures.
    chains_agree
        Whether all chains agree; True for a method without chains.
    n
        Number of held-out structures.
    """

    state: State
    word: str
    sentence: str
    curve: CurveVerdict | None
    chains_agree: bool
    n: int


def result_verdict(
    heldout: HeldOut, manifest: Mapping[str, Any], *, calibrated: HeldOut | None = None
) -> ResultVerdict:
    """Return the verdict on a run.

    Parameters
    ----------
    heldout
        Held-out structures of the run.
    manifest
        Manifest of the run.
    calibrated
        The structures that the run's calibrator was not fitted on, with calibrated intervals. The
        intervals are judged on them if there are at least `FEWEST_JUDGED`.
    """
    n = len(heldout)
    judged = heldout
    if calibrated is not None and len(calibrated) >= FEWEST_JUDGED:
        judged = calibrated
    rhat = _rhat(manifest)
    chains_agree = not rhat or rhat[worst_of(rhat)] <= RHAT_LIMIT
    constant_eV = float((manifest.get("tested") or {}).get("mean_gap_rmse_eV", math.nan))
    mean_gap = "" if math.isnan(constant_eV) else f" ({_eV(constant_eV)} by the mean gap)"
    error = f"RMSE {_eV(rmse(heldout.gaps_eV, heldout.predictions.mean_eV))}{mean_gap} on {n:,} "
    error += "held-out structure" if n == 1 else "held-out structures"
    if n < FEWEST_JUDGED:
        sentence = (
            f"Too few held-out structures to judge the run by ({FEWEST_JUDGED} are needed): {error}"
        )
        return ResultVerdict("unknown", "Cannot be judged", f"{sentence}.", None, chains_agree, n)
    curve = curve_verdict(coverage_of(judged, "prediction"))
    if heldout.predictions.p_metal is not None:
        return _with_metals(heldout, curve, chains_agree=chains_agree)
    parts = [error, interval_text(judged, curve), far_text(heldout)]
    if is_no_better_than_mean(heldout, constant_eV):
        sentence = f"Not clearly better than the mean gap: {'; '.join(parts)}."
        return ResultVerdict("poor", "Not usable", sentence, curve, chains_agree, n)
    rank = rank_correlation(heldout)
    share = rmse(heldout.gaps_eV, heldout.predictions.mean_eV) / constant_eV
    usable_gaps = math.isnan(constant_eV) or share <= GOOD_SHARE
    purpose = _purpose(heldout, rank=rank, usable_gaps=usable_gaps)
    word = "Use with care"
    state: State = "fair"
    if not chains_agree:
        worst = worst_of(rhat)
        purpose = f"Not settled, the chains have not agreed (R-hat {rhat[worst]:.2f})"
        word = "Chains not agreed"
    elif curve.deviates:
        word = f"Intervals {side_of(judged, curve)}"
    elif share < TINY:
        word = "Too small an error"
        purpose = "The gaps themselves may be among the inputs"
    elif rank >= GOOD_RANK and usable_gaps:
        state = "good"
        word = "Good"
    return ResultVerdict(state, word, f"{purpose}: {'; '.join(parts)}.", curve, chains_agree, n)


def _with_metals(heldout: HeldOut, curve: CurveVerdict, *, chains_agree: bool) -> ResultVerdict:
    """Return the verdict on a run with a probability of a metal."""
    n = len(heldout)
    metals = metal_scores(heldout)
    margin = STANDARD_ERRORS * math.sqrt(metals.majority * (1 - metals.majority) / n)
    tells_metals = metals.share_right > metals.majority + margin
    share = metals.rmse_eV / metals.mean_gap_rmse_eV
    tells_gaps = share < NOT_BETTER
    state: State = "fair"
    word = "Use with care"
    if not (tells_metals or tells_gaps):
        is_judged = metals.n_semiconductors >= FEWEST_JUDGED
        state, word = ("poor", "Not usable") if is_judged else ("unknown", "Cannot be judged")
    elif not chains_agree:
        word = "Chains not agreed"
    elif curve.deviates:
        word = f"Intervals {side_of(heldout, curve)}"
    elif tells_metals and share <= GOOD_SHARE:
        state = "good"
        word = "Good"
    sentence = f"{metals.sentence} {interval_text(heldout, curve)}."
    return ResultVerdict(state, word, sentence, curve, chains_agree, n)


def is_no_better_than_mean(heldout: HeldOut, constant_eV: float) -> bool:
    """Return whether the RMSE is not clearly below `constant_eV`, that of a constant prediction.

    The constant is the mean gap of the training structures, whose squared errors differ from those
    of the mean held-out gap by a constant on average.
    """
    if math.isnan(constant_eV):
        return False
    squares = heldout.errors_eV**2
    if np.sqrt(squares.mean()) >= NOT_BETTER * constant_eV:
        return True
    gaps = heldout.gaps_eV
    shift = max(constant_eV**2 - float(gaps.var()), 0.0)
    gains = (gaps - gaps.mean()) ** 2 + shift - squares
    standard_error = float(gains.std(ddof=1)) / math.sqrt(gains.size)
    return bool(gains.mean() < STANDARD_ERRORS * standard_error)


def rank_correlation(heldout: HeldOut) -> float:
    """Return Spearman's rank correlation of predicted and known gaps, 0 if either is constant."""
    from scipy.stats import rankdata  # imported here, as it takes a third of a second

    predicted_ranks = np.asarray(rankdata(heldout.predictions.mean_eV), dtype=np.float64)
    known_ranks = np.asarray(rankdata(heldout.gaps_eV), dtype=np.float64)
    if np.ptp(predicted_ranks) == 0 or np.ptp(known_ranks) == 0:
        return 0.0
    return float(np.corrcoef(predicted_ranks, known_ranks)[0, 1])


def far_rows(heldout: HeldOut) -> NDArray[np.int64]:
    """Return the rows that are far off, the largest error first; none where there are metals."""
    if heldout.predictions.p_metal is not None:
        return np.array([], dtype=np.int64)
    errors = np.abs(heldout.errors_eV)
    lower, upper = heldout.predictions.interval(LEVEL)
    is_outside = (heldout.gaps_eV < lower) | (heldout.gaps_eV > upper)
    limit = FAR * 1.4826 * float(np.median(errors))
    order = np.argsort(-errors, kind="stable")
    return np.array(
        [row for row in order if errors[row] > limit and is_outside[row]], dtype=np.int64
    )


def far_text(heldout: HeldOut) -> str:
    """Return how many structures are far off."""
    n_far = far_rows(heldout).size
    if n_far == 0:
        return "no structure is far off"
    return "1 structure is far off" if n_far == 1 else f"{n_far} structures are far off"


def interval_text(heldout: HeldOut, curve: CurveVerdict) -> str:
    """Return the coverage of the 95 % intervals, and at which levels chance does not explain it."""
    lower, upper = heldout.predictions.interval(LEVEL, "prediction")
    share = coverage(heldout.gaps_eV, lower, upper=upper)
    text = f"95 % intervals contain {100 * share:.0f} %"
    if not curve.deviates:
        return text
    if not curve.ranges:
        return f"{text}, and over all levels they are {side_of(heldout, curve)} by more than chance"
    is_within_chance = not any(place.lowest <= LEVEL <= place.highest for place in curve.ranges)
    text += ", which may be chance, but " if is_within_chance else " and "
    places = [
        f"those of {100 * place.lowest:.0f} to {100 * place.highest:.0f} % are {place.side}"
        for place in curve.ranges
    ]
    return text + " and ".join(places)


def side_of(heldout: HeldOut, curve: CurveVerdict) -> str:
    """Return whether a coverage curve that deviates is too narrow or too wide, or "off" for both.

    Where the curve is outside the band of chance at no single level, the mean of the curve decides.
    """
    sides = {place.side for place in curve.ranges}
    if len(sides) == 1:
        return str(next(iter(sides)))
    if sides:
        return "off"
    measured = coverage_of(heldout, "prediction")
    return "too narrow" if measured.coverages.mean() < measured.levels.mean() else "too wide"


def rounded_up(value: float) -> float:
    """Return a value in eV rounded up, to 0.1 from 0.5 on, else to 0.05 or below 0.1 to 0.01.

    >>> rounded_up(0.294), rounded_up(0.05), rounded_up(1.23)
    (0.3, 0.05, 1.3)
    """
    step = 0.1 if value > 0.5 else 0.05 if value > 0.1 else 0.01
    return round(math.ceil(value / step - 1e-9) * step, 2)


def _purpose(heldout: HeldOut, *, rank: float, usable_gaps: bool) -> str:
    """Return what the predictions are good for."""
    typical_eV = rounded_up(float(np.quantile(np.abs(heldout.errors_eV), TYPICAL_SHARE)))
    if rank >= GOOD_RANK:
        if usable_gaps:
            return f"Good for ranking and for gaps, which are right within {typical_eV:g} eV"
        return "Good for ranking, not for single gaps"
    if rank >= FAIR_RANK:
        if usable_gaps:
            return f"Good for gaps, which are right within {typical_eV:g} eV, ranks only roughly"
        return "Ranks roughly, not for single gaps"
    return "Better than the mean gap, but not enough to rank"


def _rhat(manifest: Mapping[str, Any]) -> dict[str, float]:
    """Return R-hat by quantity; a value that is not a number is stored as null."""
    stored = (manifest.get("diagnostics") or {}).get("rhat") or {}
    return {name: math.nan if value is None else float(value) for name, value in stored.items()}


def _eV(value: float) -> str:
    return f"{value:.2f} eV" if value >= 0.1 else f"{value:.3f} eV"
