r"""A baseline: a value in eV that every structure has beside its features and that is near its gap.

Such as the gap of tight binding, the first of the features behind the descriptor's. Methods that learn from such
features take them as they are; every other one is given what a straight line in the baseline leaves of the gaps, and
the line is added back to what it predicts (`posterior.baseline`). The line is fitted beside the source's prediction
(`sources.recalibration`), not alone: what both know of the gaps would else be the baseline's.

Measured on organic crystals (OMDB, one network trained on QM9, conjugated molecules and OE62, GFN1-xTB gaps of the
molecules, five splits), error in eV of fine-tuning at n = 100: 0.58 without a baseline, 0.43 with a line fitted alone,
0.41 with one fitted beside the source; of the ridge output layer 0.61, 0.44 and 0.42. A slope fitted beside all hidden
features (restricted likelihood) gains nothing more, nor do HOMO and LUMO beside the gap.

The line counts as independent of the rest, which is fitted to one slope. Coverage of 90 % intervals of the ridge output
layer on made-up data with the slope as uncertain as the posterior says: 0.84, 0.89 and 0.89 at 10, 20 and 40 rows; with
the true slope 0.86, 0.89 and 0.90; if the slope counted as certain 0.80, 0.87 and 0.88.

Outside the range of the training rows' baselines the slope is as uncertain as before any label (`posterior.baseline`).
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
    beside_source: bool,
) -> tuple[Baseline, Floats]:
    """Return the line in one feature behind the source's, and what it leaves of the gaps (n,) in eV.

    Raw features (n, p); those before the column are for the posterior of the rest. Raises InputError where the line
    leaves nothing.
    """
    start = Baseline(column, 0.0, 0.0, float(features[:, column].mean(dtype=np.float64)))
    values, distances, f = start.values_eV(features), start.distances_eV(features), None
    if beside_source:
        x = features[:, : source.network.n_features]
        rough = gaps_eV - baseline_slope(gaps_eV, distances)[0] * distances
        f = source_gaps_eV(source, standardiser_for(source, x, rough, gap_scale="source"), x)
    slope, sd = baseline_slope(gaps_eV, distances, f)
    left = gaps_eV - slope * distances
    if not left.std() > 0:
        raise InputError(
            f"The gaps are {slope:g} times the baseline and a constant: nothing is left to learn. Leave the baseline "
            "out, or give other gaps."
        )
    line = replace(
        start,
        slope=slope,
        slope_sd=sd,
        lowest_eV=float(values.min()),
        highest_eV=float(values.max()),
        outside_sd=SLOPE_SD,
    )
    return line, left


def with_baseline(rest: Posterior, baseline: Baseline, *, seed: int) -> BaselinePosterior:
    """Return the posterior of the rest with the line added back, which is named among its figures."""
    found = rest.diagnostics
    figures = {
        **found.figures,
        "baseline_slope": baseline.slope,
        "baseline_slope_sd": baseline.slope_sd,
    }
    return BaselinePosterior(rest, baseline, seed, replace(found, figures=figures))
