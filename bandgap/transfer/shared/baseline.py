"""A baseline: an estimate of the gap in eV that every structure has as an additional feature.

For example the gap by tight binding, the first feature after the descriptor's. Methods that learn
from such features use them directly. Every other method learns the residuals of a straight line in
the baseline, and the line is added to its predictions (`posterior.baseline`). The line is fitted
together with the source's prediction (`sources.recalibration`); a line fitted alone would also
explain what the source predicts.

The slope is treated as independent of the residuals' model, which is fitted at one slope. Outside
the range of the training rows' baselines the slope is as uncertain as before any label
(`posterior.baseline`).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError
from bandgap.posterior import Baseline, BaselinePosterior, Floats, Posterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import SLOPE_SD, baseline_slope, source_gaps_eV, standardiser_for


def fit_baseline(
    source: SourceModel,
    features: NDArray[np.floating[Any]],
    gaps_eV: Floats,
    *,
    column: int,
    with_source: bool,
) -> tuple[Baseline, Floats]:
    """Fit the line in one feature after the source's, and return it with the residuals.

    Parameters
    ----------
    source
        Source model.
    features
        Raw features (n, p); those before the column are the descriptor's.
    gaps_eV
        Gaps (n,) in eV.
    column
        Column of the baseline.
    with_source
        Whether the line is fitted together with the source's prediction.

    Returns
    -------
    tuple
        The line, and the residuals (n,) of the gaps in eV.

    Raises
    ------
    InputError
        When the line explains the gaps exactly.
    """
    start = Baseline(column, 0.0, 0.0, float(features[:, column].mean(dtype=np.float64)))
    values = start.values_eV(features)
    distances = start.distances_eV(features)
    f = None
    if with_source:
        x = features[:, : source.network.n_features]
        rough_residuals = gaps_eV - baseline_slope(gaps_eV, distances)[0] * distances
        scales = standardiser_for(source, x, rough_residuals, gap_scale="source")
        f = source_gaps_eV(source, scales, x)
    slope, sd = baseline_slope(gaps_eV, distances, f)
    residuals_eV = gaps_eV - slope * distances
    if not residuals_eV.std() > 0:
        raise InputError(
            f"The gaps are {slope:g} times the baseline and a constant: nothing is left to learn. "
            "Leave the baseline out, or give other gaps."
        )
    line = replace(
        start,
        slope=slope,
        slope_sd=sd,
        lowest_eV=float(values.min()),
        highest_eV=float(values.max()),
        outside_sd=SLOPE_SD,
    )
    return line, residuals_eV


def with_baseline(posterior: Posterior, baseline: Baseline, *, seed: int) -> BaselinePosterior:
    """Return the posterior of the residuals with the line added, and its slope as a figure."""
    diagnostics = posterior.diagnostics
    figures = {
        **diagnostics.figures,
        "baseline_slope": baseline.slope,
        "baseline_slope_sd": baseline.slope_sd,
    }
    return BaselinePosterior(posterior, baseline, seed, replace(diagnostics, figures=figures))
