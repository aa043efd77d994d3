"""The benchmark of stochastic-gradient MCMC: its figures by hand, and its refusals."""

import numpy as np
import pytest

from bandgap.benchmarks.sgmcmc import SgmcmcBenchmark, differences, run_benchmark
from bandgap.foundation.errors import ConfigError, InputError


def test_differences_of_means_are_in_posterior_sds_and_in_monte_carlo_errors():
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(4, 2500, 3))
    moved = differences(exact, 0.2 + 1.1 * rng.normal(size=(4, 2500, 3)))
    assert moved["means_in_sd"] == pytest.approx(0.2, abs=0.03)
    assert moved["means_in_errors"] == pytest.approx(0.2 / np.sqrt((1 + 1.1**2) / 10_000), rel=0.2)
    assert moved["sd_ratio"] == pytest.approx(1.1, abs=0.02)


def test_sizes_beyond_the_rows_are_refused():
    with pytest.raises(ConfigError, match=r"bench sgmcmc: 1000 rows, .* sizes up to the number of rows"):
        SgmcmcBenchmark(n=1000)


def test_folder_without_the_molecules_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"qm9_gap.extxyz.gz: no such file. Give the folder that holds qm9_gap"):
        run_benchmark(tmp_path, SgmcmcBenchmark())
