"""Predictions where a structure has an element for which the descriptor has no features.

Such a structure cannot be described. All that the run says of it is how the gaps are distributed
from which it learned: their mean, and their standard deviation as uncertainty of both the mean and
a new observation. An estimator of scikit-learn must predict every structure that it is given, such
as those of a fold of a cross-validation; tables of `predict_run` refuse it instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.datasets.table import elements_of
from bandgap.predictions.gap_distribution import ZERO_EV, GapDistribution
from bandgap.predictions.table import LEVELS, Predictions
from bandgap.runs.stored import Run
from bandgap.structures import StructureRecord
from bandgap.transfer import get_method

_SMALLEST_SD_EV = 0.01  # where all gaps are equal


class UnseenElementWarning(UserWarning):
    """Predictions for structures with an element that the descriptor lacks."""


def gap_facts(gaps_eV: NDArray[np.float64]) -> dict[str, float]:
    """Return how the gaps (n,) are distributed from which a run learns, for its manifest."""
    return {
        "n": gaps_eV.size,
        "n_zero": int((gaps_eV <= ZERO_EV).sum()),
        "mean_eV": round(float(gaps_eV.mean()), 6),
        "sd_eV": round(float(gaps_eV.std()), 6),
    }


def with_unseen_elements(
    predictions: Predictions, run: Run, records: Sequence[StructureRecord]
) -> tuple[Predictions, str]:
    """Return predictions with a row for structures that have an element beyond the descriptor.

    Parameters
    ----------
    predictions
        Predictions of the run for the records; these structures are refused.
    run
        The run. With a baseline nothing is changed.
    records
        Structures, n of them.

    Returns
    -------
    predictions, text
        The predictions, and a warning on the changed rows, "" without any.
    """
    lacking = [sorted(elements_of(r) - set(run.descriptor.elements)) for r in records]
    rows = np.array(
        [
            i
            for i, elements in enumerate(lacking)
            if elements and predictions.status[i] == "refused"
        ],
        dtype=np.int64,
    )
    if not rows.size or run.baseline:
        return predictions, ""
    gaps = run.manifest["data"]["gaps"]
    n = int(gaps["n"])
    columns = _columns(predictions, rows, gaps)
    sd_eV = columns["sd_new_eV"][rows[0]]
    texts: dict[str, list[str]] = {
        name: list(getattr(predictions, name)) for name in ("domain", "status", "problem")
    }
    for i in rows:
        texts["domain"][i] = (
            f"Contains {', '.join(lacking[i])}, never seen in the training set and unknown to the"
            f" descriptor: the mean of the {n:,} gaps learned from, with their standard deviation"
        )
        texts["status"][i] = "warning"
        texts["problem"][i] = ""
    elements = ", ".join(sorted({element for i in rows for element in lacking[i]}))
    text = (
        f"{rows.size:,} of {len(records):,} structures contain {elements}, which the structures"
        f" learned from lack. Their prediction is the mean of the {n:,} gaps learned from, with"
        f" their standard deviation of {sd_eV:.2g} eV. {_remedy(run)}"
    )
    columns |= {name: tuple(values) for name, values in texts.items()}
    return replace(predictions, **columns), text


def _remedy(run: Run) -> str:
    """Return how to describe such structures: `species` is not possible with a source."""
    if get_method(run.manifest["method"]).transfers:
        return (
            "To describe such structures, choose a source that knows the elements, or learn without"
            " a source and name all elements by `species`."
        )
    return "Name all elements by `species` to describe such structures."


def _columns(
    predictions: Predictions, rows: NDArray[np.int64], gaps: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the numbers of predictions with the distribution of the gaps in some rows.

    It is normal, and with `p_metal` it has the share of gaps of zero at zero, as `GapDistribution`.
    """
    mean_eV = float(gaps["mean_eV"])
    sd_eV = max(float(gaps["sd_eV"]), _SMALLEST_SD_EV)
    quantiles_mean = mean_eV + sd_eV * ndtri(LEVELS)
    values: dict[str, Any] = {
        "mean_eV": mean_eV,
        "sd_mean_eV": sd_eV,
        "sd_new_eV": sd_eV,
        "quantiles_mean": quantiles_mean[:, None],
        "quantiles_new": quantiles_mean[:, None],
    }
    if predictions.p_metal is not None:
        n = int(gaps["n"])
        p_metal = float(np.clip(gaps["n_zero"] / n, 0.5 / n, 1 - 0.5 / n))
        centre_eV = mean_eV / (1 - p_metal)
        variance = (sd_eV**2 + mean_eV**2) / (1 - p_metal) - centre_eV**2
        distribution = GapDistribution(
            np.array([[centre_eV]]),
            np.array([[max(np.sqrt(max(variance, 0.0)), _SMALLEST_SD_EV)]]),
            np.array([p_metal]),
        )
        values |= {"p_metal": p_metal, "quantiles_new": distribution.quantiles(LEVELS)}
    columns = {name: getattr(predictions, name).copy() for name in values}
    for name, value in values.items():
        columns[name][..., rows] = value
    return columns
