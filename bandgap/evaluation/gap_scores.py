"""Errors and scores of predictive distributions of gaps, and of the probability of a metal."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.evaluation.metrics import (
    coverage,
    crps_mixture,
    mae,
    mean_width,
    nll_mixture,
    rmse,
)
from bandgap.foundation.errors import InputError
from bandgap.predictions.gap_distribution import ZERO_EV, GapDistribution

Floats = NDArray[np.float64]


def gap_figures(
    gaps_eV: Floats,
    distribution: GapDistribution,
    *,
    lower: Floats,
    upper: Floats,
    point: Floats,
) -> dict[str, float]:
    """Return errors, scores, coverage and width of predictions on known gaps, by the names in runs.

    The log score of a distribution without metals is that of its density, also for a gap of zero.
    With metals there are also the figures of `metal_figures`.

    Parameters
    ----------
    gaps_eV
        Known gaps, (n,), in eV. Where one is negative, the CRPS is that of the mixture that is not
        cut at zero.
    distribution
        Predictive distributions of the n gaps.
    lower, upper
        Ends of the 95 % intervals, (n,), in eV.
    point
        Point predictions, (n,), in eV.
    """
    p_metal = distribution.p_metal
    components = {"means": distribution.centres_eV, "sds": distribution.sds_eV}
    figures = {"rmse_eV": rmse(gaps_eV, point), "mae_eV": mae(gaps_eV, point)}
    if p_metal is None:
        figures["nll"] = nll_mixture(gaps_eV, **components)
    else:
        figures["nll"] = -float(distribution.log_scores(gaps_eV).mean())
    if p_metal is None and (gaps_eV < 0).any():
        figures["crps_eV"] = crps_mixture(gaps_eV, **components)
    else:
        figures["crps_eV"] = float(distribution.crps_eV(gaps_eV).mean())
    figures["coverage_95"] = coverage(gaps_eV, lower, upper=upper)
    figures["width_95_eV"] = mean_width(lower, upper)
    return figures if p_metal is None else figures | metal_figures(gaps_eV, p_metal)


def metal_figures(gaps_eV: ArrayLike, p_metal: ArrayLike) -> dict[str, float]:
    """Return the Brier score and the area under the ROC curve of `p_metal` (n,) on gaps (n,) in eV.

    The area is left out where all structures are metals or none is.

    >>> metal_figures([0.0, 1.0, 2.0], [0.8, 0.3, 0.1])["auc_metal"]
    1.0
    """
    is_metal = np.asarray(gaps_eV, dtype=np.float64) <= ZERO_EV
    probability = np.asarray(p_metal, dtype=np.float64)
    figures = {"brier_metal": float(np.mean((probability - is_metal) ** 2))}
    if 0 < is_metal.sum() < is_metal.size:
        figures["auc_metal"] = area_under_roc(is_metal, probability)
    return figures


def area_under_roc(is_metal: NDArray[np.bool_], score: ArrayLike) -> float:
    """Return the probability that a metal has a higher score than a semiconductor; ties count half.

    Raises InputError unless there are both.

    >>> area_under_roc(np.array([True, False, False]), [0.5, 0.5, 0.1])
    0.75
    """
    n_metals = int(is_metal.sum())
    n_others = int(is_metal.size - n_metals)
    if not n_metals or not n_others:
        raise InputError(
            f"area under the ROC curve: found {n_metals} metals and {n_others} semiconductors. "
            "Accepted: at least one of each."
        )
    from scipy.stats import rankdata  # imported here, as it takes a third of a second

    rank_sum = float(rankdata(np.asarray(score, dtype=np.float64))[is_metal].sum())
    return (rank_sum - n_metals * (n_metals + 1) / 2) / (n_metals * n_others)
