"""The benchmark `uci`: figures of the published protocol, effects of passes, and errors."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from bandgap.research.assumed_density.belief import fresh_belief
from bandgap.research.assumed_density.passes import take_in
from bandgap.research.assumed_density.predictive import predict
from bandgap.research.assumed_density.prior_sites import refine_prior
from benchmarks.uci import UciStudy, fit_split, read_split, run_uci


@pytest.fixture
def folder(tmp_path):
    """A made-up set named yacht, with two splits and a constant feature."""
    rng = np.random.default_rng(0)
    x = np.hstack([rng.normal(size=(80, 3)), np.ones((80, 1))])
    y = 5.0 + 2.0 * np.maximum(x[:, 0], 0.0) + 0.1 * rng.normal(size=80)
    text = "x0,x1,x2,x3,y\n" + "\n".join(",".join(map(str, row)) for row in np.column_stack([x, y]))
    inside = tmp_path / "uci_regression"
    inside.mkdir()
    (inside / "yacht.csv.gz").write_bytes(gzip.compress(text.encode()))
    splits = json.dumps([list(range(8)), list(range(8, 16))])
    (inside / "yacht.test_indices.json.gz").write_bytes(gzip.compress(splits.encode()))
    return tmp_path


@pytest.mark.parametrize(("method", "biased"), [("pbp", True), ("sspbp", False)])
def test_study_fits_each_split_and_returns_its_figures(folder, method, biased):
    fits = list(run_uci(folder, UciStudy(("yacht",), method, (8,), biased, passes=10, splits=2)))
    assert [(fit.name, fit.split) for fit in fits] == [("yacht", 0), ("yacht", 1)]
    assert all(fit.rmse < 0.7 for fit in fits)
    assert all(np.isfinite(fit.log_density) and 0.6 <= fit.coverage <= 1.0 for fit in fits)
    assert all(fit.slab_share == 1.0 for fit in fits if biased or method == "pbp")


def test_training_rows_of_a_split_exclude_its_test_rows(folder):
    split = read_split(folder, "yacht", 1)
    assert split.x.shape == (72, 4) and split.x_test.shape == (8, 4)
    all_rows = np.vstack([split.x[:8], split.x_test, split.x[8:]])
    first_split = read_split(folder, "yacht", 0)
    np.testing.assert_array_equal(all_rows[:16], np.vstack([first_split.x_test, split.x_test]))


def test_same_seed_repeats_a_split(folder):
    config = UciStudy(("yacht",), hidden=(8,), passes=3, splits=1)
    first, second = (next(run_uci(folder, config)) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert next(run_uci(folder, replace(config, seed=1))).rmse != first.rmse


def figures(test_data, name, **settings):
    fits = list(run_uci(test_data, UciStudy((name,), **settings)))
    return {
        key: np.mean([getattr(fit, key) for fit in fits])
        for key in ("rmse", "log_density", "coverage")
    }


@pytest.mark.data
@pytest.mark.slow
def test_yacht_has_the_published_error_and_log_density(test_data):
    """The paper of 2015 has 1.015 and -1.634."""
    means = figures(test_data, "yacht")
    assert 0.85 < means["rmse"] < 1.20
    assert -1.72 < means["log_density"] < -1.55


@pytest.mark.data
@pytest.mark.slow
def test_boston_has_the_published_error_and_log_density(test_data):
    """The paper of 2015 has 3.014 and -2.574."""
    means = figures(test_data, "bostonHousing")
    assert 2.7 < means["rmse"] < 3.4
    assert -2.8 < means["log_density"] < -2.4


@pytest.mark.data
@pytest.mark.slow
def test_share_of_weights_vanishes_only_if_rows_are_counted_in_each_pass(test_data):
    split = read_split(test_data, "bostonHousing", 0)
    plain, once, first = (
        fit_split(
            "bostonHousing", 0, split, UciStudy(likelihood=likelihood, passes=passes)
        ).weights_share
        for likelihood, passes in (("adf", 40), ("sep", 40), ("adf", 1))
    )
    assert plain < 0.10 and once > 0.20 and first > 0.20


@pytest.mark.data
@pytest.mark.slow
def test_both_orders_of_the_prior_step_give_the_same_network(test_data):
    """Yacht, split 0, 40 passes from one start: RMSE within 5 %, lambda within 10 %."""
    split = read_split(test_data, "yacht", 0)
    mean = split.x.mean(0)
    sd = split.x.std(0)
    y_mean = split.y.mean()
    y_sd = split.y.std()
    figures_of_orders = {}
    for order in ("one by one", "together"):
        rng = np.random.default_rng(0)
        belief = fresh_belief((6, 50, 1), rng=rng)
        for _ in range(40):
            belief, _ = take_in(belief, (split.x - mean) / sd, (split.y - y_mean) / y_sd, rng=rng)
            belief = refine_prior(belief, order=order)
        means = predict(belief, (split.x_test - mean) / sd, y_mean=y_mean, y_sd=y_sd).mean
        gamma = belief.precisions[0]
        rmse = np.sqrt(np.mean((means - split.y_test) ** 2))
        figures_of_orders[order] = (rmse, gamma.shape / gamma.rate)
    (rmse, precision), (other_rmse, other_precision) = figures_of_orders.values()
    assert abs(other_rmse / rmse - 1) < 0.05
    assert abs(other_precision / precision - 1) < 0.10
