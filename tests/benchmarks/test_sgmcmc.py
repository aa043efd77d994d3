"""The benchmark `sgmcmc`: figures on small problems, and errors."""

import numpy as np
import pytest

from bandgap.datasets.table import Table
from bandgap.transfer import TargetData
from benchmarks.sgmcmc import SgmcmcBenchmark, differences, measured
from tests.statistical.by_library import source_of
from tests.unit.inference.network.problems import plain, raw


def test_differences_of_means_have_the_units_of_sd_and_monte_carlo_error():
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(4, 2500, 3))
    moved = differences(exact, 0.2 + 1.1 * rng.normal(size=(4, 2500, 3)))
    assert moved["means_in_sd"] == pytest.approx(0.2, abs=0.03)
    assert moved["means_in_errors"] == pytest.approx(0.2 / np.sqrt((1 + 1.1**2) / 10_000), rel=0.2)
    assert moved["sd_ratio"] == pytest.approx(1.1, abs=0.02)


def test_size_of_draws_time_and_error_are_measured():
    theta_hat, x, _ = raw(80, 5, hidden=(20, 15))
    rows = x.numpy().astype(np.float32)
    gaps = plain(theta_hat, x).numpy()
    data = TargetData(rows[:60], gaps[:60])
    test = Table([], rows[60:], gaps[60:])
    settings = {
        "sampler": {"warmup": 40, "draws": 160, "search": 40, "keep": 160, "batch_size": 20}
    }
    config = SgmcmcBenchmark(n=60, n_test=20, n_exact=50, sizes=(60,))
    figures = measured(source_of(theta_hat), data, settings, test, config)
    weights = {"hidden": 160 * (20 * 6 + 15 * 20), "others": 160 * (16 + 15)}
    assert figures["stored_MB"] == pytest.approx(4e-6 * sum(weights.values()), rel=0.05)
    assert figures["prediction_seconds"] > 0 and np.isfinite(figures["rmse_eV"])
