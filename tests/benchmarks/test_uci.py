"""The benchmark `uci`: figures of the published protocol, effects of passes, and errors."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.uci import UciStudy, read_split, run_uci


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
