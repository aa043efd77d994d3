"""What an error is worth: compared with the mean gap, and how much of it is a shift."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST = 5  # structures from which a shift or a comparison is named
CLEAR = 3.0  # standard errors
SHIFT_SHARE = 0.5  # of the RMSE
SMALLEST_SHIFT_EV = 0.05
NOT_BETTER = 0.95  # of the error of the mean gap
TINY = 0.01  # of the gaps' standard deviation


def error_context(observed: Floats, predicted: Floats, *, mean_gap: float) -> dict[str, float]:
    """Return the error of a constant prediction and the signed error in eV.

    Parameters
    ----------
    observed, predicted
        Gaps (n,) in eV.
    mean_gap
        Constant prediction in eV, such as the mean gap of the structures learned from.
    """
    return {
        "mean_gap_rmse_eV": float(np.sqrt(np.mean((observed - mean_gap) ** 2))),
        "signed_error_eV": float(np.mean(predicted - observed)),
    }


def tiny_error_warning(figures: Mapping[str, float]) -> str:
    """Return a warning about an RMSE below `TINY` of that of the mean gap, else "".

    `figures` are the metrics of a run and what they are compared with (`error_context`).

    >>> tiny_error_warning({"n": 40, "rmse_eV": 0.001, "mean_gap_rmse_eV": 1.0}).partition(" eV")[0]
    'The RMSE (0.0010'
    """
    rmse_eV = figures.get("rmse_eV", math.nan)
    spread_eV = figures.get("mean_gap_rmse_eV", math.nan)
    if figures.get("n", 0) < FEWEST or not rmse_eV < TINY * spread_eV:
        return ""
    return (
        f"The RMSE ({rmse_eV:.4f} eV) is below {100 * TINY:g} % of the standard deviation of the"
        f" gaps ({spread_eV:.2f} eV): were the gaps themselves among the inputs, or are the test"
        " structures copies of those learned from? The error says nothing about other structures."
    )


def error_sentences(*, n: int, rmse_eV: float, context: Mapping[str, float]) -> list[str]:
    """Return sentences on an error that is no better than the mean gap, or mostly a shift.

    >>> context = {"mean_gap_rmse_eV": 2.0, "signed_error_eV": -1.5}
    >>> error_sentences(n=40, rmse_eV=1.51, context=context)[0].partition(":")[0]
    'The predictions are on average 1.500 eV below the known gaps'
    """
    if n < FEWEST:
        structures = "1 structure is" if n == 1 else f"{n} structures are"
        return [f"{structures} too few to judge the predictions by."]
    sentences = []
    constant_rmse = context["mean_gap_rmse_eV"]
    if constant_rmse > 0 and rmse_eV >= NOT_BETTER * constant_rmse:
        sentences.append(
            f"The RMSE ({rmse_eV:.3f} eV) is not clearly below that of the mean gap as the"
            f" prediction of every structure ({constant_rmse:.3f} eV): nothing was learned beyond"
            " the mean. Are ids and gaps those of these structures?"
        )
    shift = context["signed_error_eV"]
    spread = max(rmse_eV**2 - shift**2, 0.0) ** 0.5
    is_clear = abs(shift) > CLEAR * spread / n**0.5 and abs(shift) > SMALLEST_SHIFT_EV
    if is_clear and abs(shift) > SHIFT_SHARE * rmse_eV:
        side = "above" if shift > 0 else "below"
        sentences.append(
            f"The predictions are on average {abs(shift):.3f} eV {side} the known gaps: are these"
            " gaps of another level of theory than those that the run learned from?"
        )
    return sentences
