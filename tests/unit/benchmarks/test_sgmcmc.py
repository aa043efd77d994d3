"""The benchmark of stochastic-gradient MCMC: its figures by hand, its refusals, and a run on a few real molecules."""

import os
from pathlib import Path

import numpy as np
import pytest

from bandgap.benchmarks import sgmcmc
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


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif("BANDGAP_TEST_DATA" not in os.environ, reason="reads outside data")
def test_benchmark_on_a_few_molecules_has_every_figure(monkeypatch):
    monkeypatch.setattr(sgmcmc, "EXACT", "btl_pcp_sg")  # HMC of the whole network takes minutes
    config = SgmcmcBenchmark(
        n=60, n_test=20, n_exact=50, sizes=(50, 60), timed=20, warmup=20, draws=100, rivals=("ensemble",)
    )
    result = run_benchmark(Path(os.environ["BANDGAP_TEST_DATA"]), config)
    assert set(result["sides"]) == {"btl_pcp_sg", "ensemble"}
    assert 0 < result["sides"]["btl_pcp_sg"]["rmse_eV"] < 2 and result["sides"]["ensemble"]["networks"] >= 2
    assert result["agreement"]["difference"]["sd_ratio"] == pytest.approx(1.0)
    assert set(result["ms_per_iteration"]) == {"50", "60"}
