"""The synthetic last layer is what it says; every side of the benchmark is measured, on small problems."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
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
from benchmarks.last_layer_design import LEVEL_SHIFT, LastLayerDesign, make_task
from benchmarks.last_layer_speed import OURS, PLAIN, SpeedRun, measure_fits, measure_sweeps

DESIGN = LastLayerDesign(units=30, inputs=8, source_rows=4000, test_rows=400, changed=3)
SAMPLER = HorseshoeConfig(2, 80, 150, 300)
RUN = SpeedRun(chains=2, warmup=50, sweeps=60, repeats=2)
TINY = LastLayerBenchmark((12, 60), DESIGN, RUN, SAMPLER, dead=4, dead_rows=60)


def source_gaps(task, x):
    return forward(task.source.params, torch.from_numpy(x)).numpy()


@pytest.mark.parametrize(("change", "share"), [("sparse", (0.9, 1.0)), ("dense", (0.0, 0.6))])
def test_target_differs_from_the_source_by_change_and_noise(change, share):
    """Variances of 0.5 and 0.3 over 4,000 rows, to 10 %; three weights hold the sparse change, measured to 0.1."""
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


def test_target_without_a_change_has_another_level():
    task = make_task(replace(DESIGN, change_variance=0.0, test_rows=4000), 20, seed=0)
    error = task.y_test - source_gaps(task, task.x_test)
    assert error.mean() == pytest.approx(
        LEVEL_SHIFT, abs=0.06
    )  # both levels are known to 0.01 or better
    assert error.var() == pytest.approx(0.3, rel=0.1)


def test_source_knows_its_weights_to_its_own_noise():
    task = make_task(DESIGN, 20, seed=0)
    assert task.source.features.n == 4000
    assert task.source.features.residual_variance == pytest.approx(
        0.3, rel=0.1
    )  # 2.2 % for 4,000 rows
    assert np.isfinite(source_gaps(task, task.x_test)).all()


def test_more_rows_keep_the_source_and_the_test_rows():
    few, many = make_task(DESIGN, 20, seed=0), make_task(DESIGN, 40, seed=0)
    assert (
        (few.y_test == many.y_test).all()
        and few.data.gaps_eV.size == 20
        and many.data.gaps_eV.size == 40
    )
    assert (few.source.params["weight.2"] == many.source.params["weight.2"]).all()


def test_dead_units_are_dead_on_training_rows_alone():
    task = make_task(replace(DESIGN, dead=4), 60, seed=0)
    hidden = hidden_layers(task.source.params)
    on_training, on_test = (
        hidden_features(hidden, torch.from_numpy(x)).numpy()
        for x in (task.data.features, task.x_test)
    )
    assert (on_training[:, :4] == 0).all() and (on_training[:, 4:].std(0) > 0).all()
    assert ((on_test[:, :4] > 0).mean(0) > 0.4).all()


def test_both_sides_sample_the_same_posterior():
    """Means of log tau over 2,400 sweeps of each, whose standard errors are below 0.1."""
    task = make_task(DESIGN, 60, seed=0)
    problem = last_layer_problem(task.source, task.data, statistics="source", gap_scale="source")
    run = SpeedRun(chains=2, warmup=200, sweeps=1200, repeats=2)
    found = measure_sweeps(
        problem.regression, problem.rows[:5, problem.has_change], units=30, run=run, seed=0
    )
    ours, plain = found["sides"][OURS], found["sides"][PLAIN]
    assert ours["rhat_log_tau"] < 1.1 and plain["rhat_log_tau"] < 1.2
    assert abs(ours["mean_log_tau"] - plain["mean_log_tau"]) < 0.5
    assert found["form"] == "p x p" and found["changes"] == problem.n_changes


def test_rates_are_those_of_the_sweeps_and_ratios_are_theirs():
    task = make_task(DESIGN, 12, seed=0)
    problem = last_layer_problem(task.source, task.data, statistics="source", gap_scale="source")
    found = measure_sweeps(
        problem.regression, problem.rows[:5, problem.has_change], units=30, run=RUN, seed=0
    )
    assert found["form"] == "n x n"
    for row in found["sides"].values():
        assert row["sweeps_per_second"] > 0 and len(row["all_of_dpotrf"]) == RUN.repeats
        assert row["of_dpotrf"] == pytest.approx(np.median(row["all_of_dpotrf"]))
        assert row["ess_tau_per_second"] == pytest.approx(
            row["ess_tau_per_1000"] * row["sweeps_per_second"] / 1000
        )


def test_fits_are_measured_in_factorisations():
    calls = []
    found = measure_fits(lambda: calls.append(sum(range(20_000))), units=20, repeats=3, seed=0)
    assert len(calls) == 3 and len(found["all"]) == 3
    assert found["in_dpotrf"] == pytest.approx(np.median(found["all"])) and found["seconds"] > 0


def test_methods_are_judged_on_the_same_test_rows():
    task = make_task(replace(DESIGN, test_rows=1000), 60, seed=1)
    found = measure_methods(task, change="sparse", sampler=SAMPLER, seed=0)
    assert found[HORSESHOE]["mse"] < found[SHIFT]["mse"]
    assert found[SHIFT]["mse"] == pytest.approx(0.8, rel=0.25) and found[SHIFT]["expected_mse"] == (
        0.8,
        0.8,
    )
    for name, row in found.items():
        assert 0.85 < row["coverage"] <= 1.0, name
        assert row["width"] > 2 * 1.96 * np.sqrt(0.3) * 0.8


def test_least_squares_without_rows_to_spare_has_no_interval():
    task = make_task(DESIGN, 20, seed=0)
    found = measure_methods(task, change="sparse", sampler=SAMPLER, seed=0)
    assert found[OLS]["coverage"] is None and found[OLS]["width"] is None and found[OLS]["mse"] > 0


def test_benchmark_measures_every_number_of_rows_and_dead_units():
    seen = []
    found = run_benchmark(TINY, progress=seen.append)
    assert list(found["sizes"]) == [12, 60] and found["sizes"][12]["speed"]["form"] == "n x n"
    assert all(size["pcp"]["in_dpotrf"] > 0 and size["methods"] for size in found["sizes"].values())
    runs = found["dead"]["runs"]
    assert all(run["n_dropped"] >= 4 for run in runs["with the rule"])
    assert all(run["n_dropped"] == 0 for run in runs["without"])
    assert min(run["width"] for run in runs["without"]) > max(
        run["width"] for run in runs["with the rule"]
    )
    assert {u.phase for u in seen} >= {
        "measuring sweeps",
        "measuring fits",
        "comparing methods",
        "measuring dead units",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": ()}, "Accepted: at least 5 rows"),
        ({"sizes": (4,)}, "Accepted: at least 5 rows"),
        ({"speed": SpeedRun(sweeps=19)}, "20 sweeps, and one of the rest"),
        (
            {"speed": SpeedRun(sweeps=20, repeats=21)},
            "21 repeats of 20 sweeps. Accepted: fewer repeats",
        ),
    ],
)
def test_benchmark_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        replace(TINY, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"changed": 31}, "31 of 30 weights change.*Accepted: 1 to units - dead changes"),
        ({"changed": 3, "dead": 28}, "28 units are dead"),
        ({"inputs": 1}, "1 inputs"),
        ({"source_rows": 30}, "30 source rows for 30 units. Accepted: more rows"),
    ],
)
def test_design_that_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        replace(DESIGN, **settings)
