"""The benchmark `last-layer`: the synthetic problem, and all measurements on small problems."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.inference.last_layer.horseshoe import HorseshoeConfig
from bandgap.networks.perceptron import forward, hidden_features
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.last_layer_problem import last_layer_problem
from benchmarks.last_layer import (
    HORSESHOE,
    OLS,
    SHIFT,
    LastLayerBenchmark,
    measure_methods,
    run_benchmark,
)
from benchmarks.last_layer_design import LastLayerDesign, make_task
from benchmarks.last_layer_speed import OURS, PLAIN, SpeedRun, measure_sweeps

DESIGN = LastLayerDesign(units=30, inputs=8, source_rows=4000, test_rows=400, changed=3)
SAMPLER = HorseshoeConfig(2, 80, 150, 300)
RUN = SpeedRun(chains=2, warmup=50, sweeps=60, repeats=2)
TINY = LastLayerBenchmark((12, 60), DESIGN, RUN, SAMPLER, dead=4, dead_rows=60)


def source_gaps(task, x):
    return forward(task.source.params, torch.from_numpy(x)).numpy()


@pytest.mark.parametrize(("change", "share"), [("sparse", (0.9, 1.0)), ("dense", (0.0, 0.6))])
def test_target_differs_from_the_source_by_change_and_noise(change, share):
    """Variances of 0.5 and 0.3 within 10 % over 4,000 rows; a sparse change is in three weights."""
    task = make_task(replace(DESIGN, change=change, test_rows=4000), 20, seed=0)
    error = task.y_test - source_gaps(task, task.x_test)
    assert error.var() == pytest.approx(0.8, rel=0.1)
    h = (
        hidden_features(hidden_layers(task.source.params), torch.from_numpy(task.x_test))
        .double()
        .numpy()
    )
    weights, residual = np.linalg.lstsq(h - h.mean(0), error - error.mean(), rcond=None)[:2]
    assert float(residual[0]) / 4000 == pytest.approx(0.3, rel=0.1)
    squares = np.sort((weights * h.std(0)) ** 2)
    assert share[0] < squares[-3:].sum() / squares.sum() < share[1]


def test_source_has_the_residual_variance_of_its_noise():
    task = make_task(DESIGN, 20, seed=0)
    assert task.source.features.n == 4000
    # The relative standard error is 2.2 % for 4,000 rows.
    assert task.source.features.residual_variance == pytest.approx(0.3, rel=0.1)
    assert np.isfinite(source_gaps(task, task.x_test)).all()


def test_dead_units_are_dead_on_training_rows_only():
    task = make_task(replace(DESIGN, dead=4), 60, seed=0)
    hidden = hidden_layers(task.source.params)
    on_training, on_test = (
        hidden_features(hidden, torch.from_numpy(x)).numpy()
        for x in (task.data.features, task.x_test)
    )
    assert (on_training[:, :4] == 0).all() and (on_training[:, 4:].std(0) > 0).all()
    assert ((on_test[:, :4] > 0).mean(0) > 0.4).all()


def test_both_samplers_have_the_same_posterior():
    """Means of log tau over 2,400 sweeps have standard errors below 0.1."""
    task = make_task(DESIGN, 60, seed=0)
    problem = last_layer_problem(task.source, task.data, statistics="source", gap_scale="source")
    run = SpeedRun(chains=2, warmup=200, sweeps=1200, repeats=2)
    figures = measure_sweeps(
        problem.regression, problem.rows[:5, problem.has_change], units=30, run=run, seed=0
    )
    ours = figures["sides"][OURS]
    plain = figures["sides"][PLAIN]
    assert ours["rhat_log_tau"] < 1.1 and plain["rhat_log_tau"] < 1.2
    assert abs(ours["mean_log_tau"] - plain["mean_log_tau"]) < 0.5
    assert figures["form"] == "p x p"
    assert figures["changes"] == problem.n_changes


def test_methods_are_compared_on_the_same_test_rows():
    task = make_task(replace(DESIGN, test_rows=1000), 60, seed=1)
    figures = measure_methods(task, change="sparse", sampler=SAMPLER, seed=0)
    assert figures[HORSESHOE]["mse"] < figures[SHIFT]["mse"]
    assert figures[SHIFT]["mse"] == pytest.approx(0.8, rel=0.25)
    assert figures[SHIFT]["expected_mse"] == (0.8, 0.8)
    for name, row in figures.items():
        assert 0.85 < row["coverage"] <= 1.0, name
        assert row["width"] > 2 * 1.96 * np.sqrt(0.3) * 0.8


def test_least_squares_without_degrees_of_freedom_has_no_interval():
    task = make_task(DESIGN, 20, seed=0)
    figures = measure_methods(task, change="sparse", sampler=SAMPLER, seed=0)[OLS]
    assert figures["coverage"] is None
    assert figures["width"] is None
    assert figures["mse"] > 0


def test_benchmark_measures_all_numbers_of_rows_and_dead_units():
    updates = []
    result = run_benchmark(TINY, progress=updates.append)
    sizes = result["sizes"]
    assert list(sizes) == [12, 60]
    assert sizes[12]["speed"]["form"] == "n x n"
    assert all(size["pcp"]["in_dpotrf"] > 0 and size["methods"] for size in sizes.values())
    runs = result["dead"]["runs"]
    assert all(run["n_dropped"] >= 4 for run in runs["with the rule"])
    assert all(run["n_dropped"] == 0 for run in runs["without"])
    assert min(run["width"] for run in runs["without"]) > max(
        run["width"] for run in runs["with the rule"]
    )
    assert {update.phase for update in updates} >= {
        "measuring sweeps",
        "measuring fits",
        "comparing methods",
        "measuring dead units",
    }
