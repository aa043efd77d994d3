"""Tables on intervals: counts add up, groups are what they say, ranges of chance are the
exact ones.
"""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, chi2

from bandgap.evaluation.reliability import (
    coverage_of,
    coverage_table,
    spread_table,
)
from bandgap.predictions.conformal import ConformalScores
from tests.unit.evaluation.test_paired import GAPS, N, normal_heldout

RNG = np.random.default_rng(7)
SD = RNG.uniform(0.1, 0.6, N)
FORMULAS = ["C6H6", "C6H6", "C2H2Br2", "C10H8", "Cl2"] * (N // 5)
HELD = normal_heldout(SD * RNG.normal(size=N), SD, formulas=FORMULAS)


def test_coverage_of_prediction_and_credible_intervals_counts_what_is_inside():
    for kind in ("prediction", "credible"):
        curve = coverage_of(HELD, kind)
        lower, upper = HELD.predictions.interval(0.8, kind)
        assert curve.coverages[79] == np.mean((lower <= GAPS) & (upper >= GAPS))
    assert (
        coverage_of(HELD, "credible").coverages[94] < coverage_of(HELD, "prediction").coverages[94]
    )


def test_coverage_of_conformal_intervals_ends_where_the_scores_do():
    scores = ConformalScores(("x",) * 19, np.linspace(0.1, 2.0, 19))
    heldout = dataclasses.replace(
        HELD, predictions=dataclasses.replace(HELD.predictions, conformal=scores)
    )
    table = coverage_table(coverage_of(heldout, "conformal"))
    assert table["level"].max() == 0.95
    assert table["chance_upper"].iloc[49] == binom.ppf(0.975, N, 0.5) / N


def test_spread_groups_are_tenths_by_predicted_spread_with_the_range_of_chi_squared():
    table = spread_table(HELD)
    assert table["structures"].tolist() == [40] * 10
    assert table["sd_eV"].is_monotonic_increasing
    first = np.argsort(SD)[:40]
    assert table["rmse_eV"][0] == pytest.approx(np.sqrt(np.mean(HELD.errors_eV[first] ** 2)))
    expected = table["sd_eV"][0] * np.sqrt(chi2.ppf([0.025, 0.975], 40) / 40)
    np.testing.assert_allclose(
        table.loc[0, ["chance_lower_eV", "chance_upper_eV"]].to_numpy(dtype=float), expected
    )
    assert spread_table(HELD.rows(np.arange(12)))["structures"].tolist() == [6, 6]
    # The same spread for all.
    assert spread_table(normal_heldout(np.zeros(N), 0.3))["structures"].tolist() == [N]
