"""The verdict on a whole coverage curve: its false-alarm rate, its power, and where it deviates."""

import numpy as np
import pytest

from bandgap.evaluation.calibration import CoverageCurve, coverage_curve
from bandgap.evaluation.curve_verdict import FALSE_ALARM, curve_verdict
from tests.unit.evaluation.test_paired import normal_heldout

LEVELS = np.arange(1, 100) / 100


def normal_curve(n, *, sd, seed):
    """Return the curve of normal errors of standard deviation 1 for intervals of `sd`."""
    rng = np.random.default_rng(seed)
    heldout = normal_heldout(rng.normal(0, 1, n), sd, gaps=rng.normal(3.0, 1.0, n))
    return coverage_curve(heldout.gaps_eV, heldout.predictions.quantiles_new)


@pytest.mark.parametrize("n", [20, 91, 320])
def test_curve_verdict_of_calibrated_curves_alarms_at_most_at_the_stated_rate(n):
    # 400 curves: 5 standard deviations of a binomial share of 5 % are 0.055, so that the test
    # itself fails by chance for less than one seed in a million.
    rng = np.random.default_rng(3)
    shares = rng.multinomial(n, np.full(100, 0.01), size=400).cumsum(axis=1)[:, :99] / n
    alarms = [curve_verdict(CoverageCurve(LEVELS, share, n)).deviates for share in shares]
    assert np.mean(alarms) < FALSE_ALARM + 5 * np.sqrt(FALSE_ALARM * (1 - FALSE_ALARM) / 400)
    assert any(alarms)  # the rate is not 0 either: it would be with probability 0.95**400


def test_curve_verdict_of_intervals_too_wide_in_the_middle_but_right_at_95_percent_deviates():
    # Errors with a Student t distribution of 3 degrees: intervals of equal 95 % width are too wide
    # at lower levels.
    rng = np.random.default_rng(5)
    errors = 0.1 * rng.standard_t(3, 200)
    sd = 0.1 * 3.182 / 1.96
    heldout = normal_heldout(errors, sd, gaps=rng.normal(3.0, 1.0, 200))
    curve = coverage_curve(heldout.gaps_eV, heldout.predictions.quantiles_new)
    lower, upper = curve.band()
    assert lower[94] <= curve.coverages[94] <= upper[94]
    verdict = curve_verdict(curve)
    assert verdict.deviates and verdict.area > verdict.chance_area
    (wide,) = [place for place in verdict.ranges if place.side == "too wide"]
    assert wide.lowest < 0.5 < wide.highest


@pytest.mark.parametrize(("sd", "side"), [(0.6, "too narrow"), (1.7, "too wide")])
def test_curve_verdict_of_a_wrong_width_names_side_and_levels(sd, side):
    verdict = curve_verdict(normal_curve(200, sd=sd, seed=7))
    assert verdict.deviates
    assert {place.side for place in verdict.ranges} == {side}
    assert any(place.lowest <= 0.5 <= place.highest for place in verdict.ranges)


def test_curve_verdict_of_a_level_outside_its_own_band_is_still_chance():
    # 293 of 320 gaps in the 95 % interval, 304 expected; all other levels are as they should be.
    coverages = np.round(LEVELS * 320) / 320
    coverages[92:95] = 293 / 320
    verdict = curve_verdict(CoverageCurve(LEVELS, coverages, 320))
    assert not verdict.deviates
    assert [place.side for place in verdict.ranges] == ["too narrow"]


def test_curve_verdict_of_heavy_tails_sees_the_tail_that_the_area_does_not():
    coverages = np.round(LEVELS * 320) / 320
    coverages[87:] = 0.875
    verdict = curve_verdict(CoverageCurve(LEVELS, coverages, 320))
    assert verdict.area < verdict.chance_area and verdict.deviates
