"""A baseline outside what a line was learned on: the interval widens, as no label says how the line
continues.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Baseline, BaselinePosterior, LastLayerPosterior
from bandgap.sources.recalibration import SLOPE_SD
from bandgap.transfer import METHODS, TargetData
from tests.storing import read_again
from tests.unit.transfer.test_every_method import rows_of
from tests.unit.transfer.test_every_method_baseline import fit, source  # noqa: F401 - a fixture

LINE = Baseline(
    1, slope=1.5, slope_sd=0.0, centre_eV=3.0, lowest_eV=1.0, highest_eV=5.0, outside_sd=0.5
)


def rest_of(*, level_eV=4.0, sigma_eV=0.1, draws=200):
    """Return a posterior of one level for all structures, with noise of this standard deviation."""
    hidden = {"weight.1": np.zeros((2, 1)), "bias.1": np.zeros(2)}
    return LastLayerPosterior(
        standardiser=Standardiser(np.zeros(1), np.ones(1), level_eV, 1.0),
        hidden=hidden,
        output=np.zeros((1, draws, 3)),
        sigma=np.full((1, draws), sigma_eV),
        seed=0,
    )


def rows_at(*baselines):
    return np.column_stack([np.zeros(len(baselines)), baselines])


def test_interval_widens_only_outside_the_training_range():
    drawn = BaselinePosterior(rest_of(), LINE, 0).predictive_draws(rows_at(1.0, 5.0, 9.0, -3.0))
    sds = drawn.sds_eV[0]
    np.testing.assert_allclose(sds[:2], 0.1)
    np.testing.assert_allclose(sds[2:], np.hypot(0.1, 0.5 * 4.0))
    np.testing.assert_allclose(
        drawn.centres_eV[0], 4.0 + 1.5 * (np.array([1.0, 5.0, 9.0, -3.0]) - 3.0)
    )


def test_draws_of_the_mean_have_the_spread_of_the_slope_outside():
    draws = BaselinePosterior(rest_of(draws=2000), LINE, 0).mean_draws_eV(rows_at(4.9, 9.0))[0]
    assert np.ptp(draws[:, 0]) == pytest.approx(0.0, abs=1e-9)
    assert draws[:, 1].std() == pytest.approx(2.0, rel=0.01)
    assert draws[:, 1].mean() == pytest.approx(4.0 + 1.5 * 6.0)


def test_line_without_a_range_predicts_without_it():
    old = Baseline(1, slope=1.5, slope_sd=0.2, centre_eV=3.0)
    again = read_again(BaselinePosterior(rest_of(), old, 0))
    np.testing.assert_allclose(
        again.predictive_draws(rows_at(50.0)).sds_eV[0], np.hypot(0.1, 0.2 * 47.0)
    )


def test_method_fitted_with_a_baseline_stores_its_range(source):  # noqa: F811
    x, _ = rows_of(40, seed=1)
    g = np.random.default_rng(2).uniform(0.4, 6.2, 40)
    method = METHODS["last_layer_ridge"]
    posterior = fit(method, source, TargetData(np.column_stack([x, g]), 0.1 + 1.54 * g))
    line = posterior.baseline
    assert (line.lowest_eV, line.highest_eV, line.outside_sd) == (g.min(), g.max(), SLOPE_SD)
    new = np.column_stack([x[:1], [50.0]])
    sd = posterior.predictive_draws(new).wide_sds_eV[0, 0]
    # 0.005 eV where the line counts as known everywhere.
    assert sd == pytest.approx(0.5 * (50.0 - g.max()), rel=0.01)
    assert replace(line, outside_sd=0.0).excess_eV(new)[0] == pytest.approx(50.0 - g.max())
