"""Coverage curves and PIT values: exact cases, and frequencies with stated false-alarm rates."""

import numpy as np
import pytest
import uncertainty_toolbox as toolbox
from scipy.stats import binom, kstest, norm

from bandgap.evaluation.calibration import coverage_curve, pit
from bandgap.predictions.table import LEVELS

N = 500
RNG = np.random.default_rng(8)
MEAN = RNG.normal(3.0, 1.0, N)
SD = RNG.uniform(0.2, 0.6, N)
Y = MEAN + SD * RNG.normal(size=N)


def quantiles(sd):
    return MEAN + sd * norm.ppf(LEVELS)[:, None]


def test_coverage_curve_agrees_with_uncertainty_toolbox():
    curve = coverage_curve(Y, quantiles(SD))
    _, shares = toolbox.get_proportion_lists_vectorized(MEAN, SD, Y, num_bins=101)
    np.testing.assert_allclose(curve.levels, np.linspace(0, 1, 101)[1:-1])
    np.testing.assert_array_equal(curve.coverages, shares[1:-1])
    area = toolbox.miscalibration_area(MEAN, SD, Y, num_bins=101)
    assert curve.miscalibration_area == pytest.approx(area, abs=1e-12)


@pytest.mark.parametrize(("factor", "side"), [(0.5, "below"), (2.0, "above")])
def test_coverage_curve_wrong_width_leaves_the_band_of_chance(factor, side):
    curve = coverage_curve(Y, quantiles(factor * SD))
    lower, upper = curve.band()
    assert (curve.coverages < lower if side == "below" else curve.coverages > upper)[30:90].all()
    assert curve.miscalibration_area > 0.15


def test_coverage_curve_right_width_stays_in_the_wide_band():
    # False-alarm rate below 99 x 1e-6 per seed.
    curve = coverage_curve(Y, quantiles(SD))
    lower, upper = curve.band(1 - 1e-6)
    assert ((curve.coverages >= lower) & (curve.coverages <= upper)).all()
    assert curve.miscalibration_area < 0.05


def test_coverage_curve_band_is_the_binomial_one():
    lower, upper = coverage_curve(Y, quantiles(SD)).band(0.9)
    np.testing.assert_allclose(lower, binom.ppf(0.05, N, np.arange(1, 100) / 100) / N)
    np.testing.assert_allclose(upper, binom.ppf(0.95, N, np.arange(1, 100) / 100) / N)


def test_pit_of_a_normal_distribution_is_its_cdf():
    expected = np.clip(norm.cdf((Y - MEAN) / SD), 0.0025, 0.9975)
    inside = (expected > 0.005) & (expected < 0.995)
    np.testing.assert_allclose(pit(Y, quantiles(SD))[inside], expected[inside], atol=1e-4)
    assert set(pit(Y, quantiles(SD))[~inside]) <= {0.0025, 0.9975}


def test_pit_calibrated_is_uniform_and_too_narrow_is_not():
    # Kolmogorov-Smirnov; false-alarm rate 0.001 per seed.
    assert kstest(pit(Y, quantiles(SD)), "uniform").pvalue > 0.001
    assert kstest(pit(Y, quantiles(0.5 * SD)), "uniform").pvalue < 0.001
