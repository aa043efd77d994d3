"""Metrics against uncertainty-toolbox, against quadrature, and against values worked
out by hand.
"""

import numpy as np
import pytest
import uncertainty_toolbox as toolbox
from scipy.integrate import quad
from scipy.stats import norm

from bandgap.evaluation import metrics


@pytest.fixture
def world():
    rng = np.random.default_rng(5)
    y = rng.normal(3.0, 0.8, 40)
    return y, y + rng.normal(0.0, 0.4, 40), rng.uniform(0.2, 0.9, 40)


@pytest.fixture
def mixture():
    rng = np.random.default_rng(6)
    return rng.normal(3.0, 0.8, 4), rng.normal(3.0, 0.7, (7, 4)), rng.uniform(0.1, 0.6, 7)


def test_point_errors_agree_with_uncertainty_toolbox(world):
    y, mean, _ = world
    oracle = toolbox.metrics.prediction_error_metrics(mean, y)
    assert metrics.rmse(y, mean) == pytest.approx(oracle["rmse"], rel=1e-12)
    assert metrics.mae(y, mean) == pytest.approx(oracle["mae"], rel=1e-12)
    assert metrics.r2(y, mean) == pytest.approx(oracle["r2"], rel=1e-12)


def test_gaussian_scores_agree_with_uncertainty_toolbox(world):
    y, mean, sd = world
    assert metrics.nll_gaussian(y, mean, sd=sd) == pytest.approx(
        toolbox.nll_gaussian(mean, sd, y), rel=1e-12
    )
    assert metrics.crps_gaussian(y, mean, sd=sd) == pytest.approx(
        toolbox.crps_gaussian(mean, sd, y), rel=1e-12
    )


def test_miscalibration_area_agrees_with_uncertainty_toolbox(world):
    y, mean, sd = world
    levels, shares = toolbox.get_proportion_lists_vectorized(mean, sd, y)
    area = metrics.miscalibration_area(levels[1:-1], shares[1:-1])
    assert area == pytest.approx(toolbox.miscalibration_area(mean, sd, y), abs=1e-12)


def test_miscalibration_area_curve_crossing_the_diagonal_counts_both_sides():
    # from +0.1 at 0.4 to -0.1 at 0.6: triangles of 0.5 * 0.1 * 0.1 twice, and 0.5 * 0.4 * 0.1 at
    # each end
    assert metrics.miscalibration_area([0.4, 0.6], [0.5, 0.5]) == pytest.approx(0.05)


def test_mixture_scores_of_one_draw_equal_the_gaussian_ones(world):
    y, mean, sd = world
    assert metrics.nll_mixture(y, mean[None], sds=sd[None]) == pytest.approx(
        metrics.nll_gaussian(y, mean, sd=sd)
    )
    assert metrics.crps_mixture(y, mean[None], sds=sd[None]) == pytest.approx(
        metrics.crps_gaussian(y, mean, sd=sd)
    )


def test_nll_mixture_agrees_with_the_density(mixture):
    y, means, sds = mixture
    density = norm.pdf(y, means, sds[:, None]).mean(axis=0)
    assert metrics.nll_mixture(y, means, sds=sds) == pytest.approx(
        -np.log(density).mean(), rel=1e-12
    )


def test_nll_mixture_far_outside_every_component_stays_finite():
    # log density = log((1/2) N(1000; 0, 1) + (1/2) N(1000; 1, 1)), by hand; the density itself
    # underflows
    expected = 0.5 * np.log(2 * np.pi) + np.log(2.0) + 0.5 * 999.0**2
    assert metrics.nll_mixture([1000.0], [[0.0], [1.0]], sds=[1.0, 1.0]) == pytest.approx(
        expected, rel=1e-12
    )


def test_crps_mixture_agrees_with_quadrature_of_its_definition(mixture):
    y, means, sds = mixture

    def score(j):
        def cdf(x):
            return norm.cdf(x, means[:, j], sds).mean()

        below = quad(lambda x: cdf(x) ** 2, -3, y[j], epsabs=1e-11, limit=400)[0]
        return below + quad(lambda x: (1 - cdf(x)) ** 2, y[j], 9, epsabs=1e-11, limit=400)[0]

    expected = np.mean([score(j) for j in range(4)])
    assert metrics.crps_mixture(y, means, sds=sds) == pytest.approx(expected, abs=1e-8)
    full = np.broadcast_to(sds[:, None], means.shape)
    assert metrics.crps_mixture(y, means, sds=full) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    "smallest", [0.3, 0.02, 1e-5], ids=["alike", "from narrow to wide", "one too narrow for a grid"]
)
def test_crps_of_many_draws_is_the_sum_over_all_pairs(smallest):
    rng = np.random.default_rng(0)
    means = rng.normal(2.0, 0.4, (400, 2))
    sds = rng.uniform(0.3, 0.6, (400, 2))
    means[0] = 5.0
    sds[0] = smallest
    y = np.array([1.0, 6.0])

    def distance(shift, sd):
        return shift * (2 * norm.cdf(shift / sd) - 1) + 2 * sd * norm.pdf(shift / sd)

    expected = [
        distance(y[j] - m, s).mean() - distance(m[:, None] - m, np.hypot(s[:, None], s)).mean() / 2
        for j, (m, s) in enumerate(zip(means.T, sds.T, strict=True))
    ]
    assert metrics.crps_mixture(y, means, sds=sds) == pytest.approx(np.mean(expected), abs=1e-13)


def test_coverage_ends_belong_to_the_interval():
    assert metrics.coverage(
        [0.0, 1.0, 1.1], [0.0, 0.0, 0.0], upper=[1.0, 1.0, 1.0]
    ) == pytest.approx(2 / 3)


def test_evaluate_gaussian_gives_the_stored_keys(world):
    y, mean, sd = (values[:4] for values in world)
    upper = np.array([y[0] - 0.5, *(y[1:] + 1)])
    figures = metrics.evaluate_gaussian(y, mean, sd=sd, lower=y - 1, upper=upper)
    assert list(figures) == ["rmse_eV", "mae_eV", "nll", "crps_eV", "coverage_95", "width_95_eV"]
    assert figures["coverage_95"] == 0.75
    assert figures["width_95_eV"] == pytest.approx((0.5 + 3 * 2) / 4)
    assert figures["rmse_eV"] == metrics.rmse(y, mean)
    assert figures["crps_eV"] == metrics.crps_gaussian(y, mean, sd=sd)
