"""The benchmark `vecchia`: its parts at small sizes, and errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.research.vecchia import settings
from bandgap.research.vecchia.langevin import LangevinConfig
from bandgap.research.vecchia.metropolis import MetropolisConfig
from benchmarks import vecchia
from benchmarks.vecchia import VecchiaBenchmark, chains, compare_sides, costs, fits_of_fewer_rows
from benchmarks.vecchia_engines import engines
from benchmarks.vecchia_rivals import gpytorch_process, sklearn_exact
from benchmarks.vecchia_rows import Rows

SMALL = VecchiaBenchmark(
    rivals=False, neighbours=8, sizes=(100, 400), chain_sites=60, chain_draws=40, repeats=1
)


@pytest.fixture(scope="module")
def rows():
    """A smooth function of three coordinates with noise of 0.1, in units of 2 eV."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(360, 3))
    trend = np.column_stack([np.ones(360), points[:, 0]])
    y = points[:, 0] + np.sin(2 * points[:, 1]) + 0.1 * rng.standard_normal(360)
    rows = Rows(points, trend, y, 2.0)
    return rows.part(slice(300)), rows.part(slice(300, None))


def test_vecchia_process_learns_and_its_intervals_cover(rows):
    side = compare_sides(*rows, SMALL)["vecchia"]
    assert side["rmse_eV"] < 0.5 * 2.0 * rows[1].y.std()
    assert side["crps_eV"] < side["rmse_eV"] and side["coverage"] > 0.8
    assert side["fit_s"] > 0 and side["predict_s"] > 0


def test_fits_of_fewer_rows_are_timed_with_their_default_likelihood(rows, monkeypatch):
    monkeypatch.setattr(vecchia, "FEWER_ROWS", (120, 200, 5_000))
    monkeypatch.setattr(settings, "EXACT_ROWS", 150)
    config = settings.GPConfig(
        nu=0.5,
        metropolis=MetropolisConfig(warmup=5, draws=20),
        sgrld=LangevinConfig(batch=50, warmup=5, draws=20),
    )
    fits = fits_of_fewer_rows(rows[0], settings=config, seed=0)
    assert {n: fit["exact"] for n, fit in fits.items()} == {"120": True, "200": False}
    assert all(fit["fit_s"] > 0 for fit in fits.values())


def test_exact_process_of_scikit_learn_predicts_trend_and_residuals(rows):
    prediction = sklearn_exact(*rows, nu=1.5, rows=200)
    assert np.sqrt(np.mean((prediction.mean - rows[1].y) ** 2)) < 0.5 * rows[1].y.std()
    assert (prediction.sd > 0.05).all()


@pytest.mark.parametrize(("kind", "size"), [("svgp", 40), ("vnngp", 10)])
def test_processes_of_gpytorch_learn_and_stop(rows, kind, size):
    pytest.importorskip("gpytorch")
    prediction = gpytorch_process(kind, *rows, nu=1.5, inducing=size, passes=4, patience=2, seed=0)
    assert prediction.mean.shape == rows[1].y.shape
    assert (prediction.sd > 0).all()
    assert 1 <= prediction.passes <= 4
    assert prediction.fit_s > 0
    assert np.sqrt(np.mean((prediction.mean - rows[1].y) ** 2)) < rows[1].y.std()


def test_passes_and_steps_are_timed_at_each_size():
    figures = costs(SMALL)
    assert [row["n"] for row in figures["sizes"]] == [100, 400]
    assert all(row["pass_s"] > 0 and row["step_s"] > 0 for row in figures["sizes"])
    assert np.isfinite(figures["slope"])


def test_engines_are_timed_on_each_device():
    rows_by_device = engines(SMALL)
    assert next(iter(rows_by_device)) == "CPU, one core"
    assert len(rows_by_device) == 1 + torch.cuda.is_available()
    for rows in rows_by_device.values():
        assert [(row["n"], row["neighbours"]) for row in rows] == [
            (100, 15),
            (400, 15),
            (100, 60),
            (400, 60),
        ]
        for row in rows:
            for work in ("pass", "step"):
                ratio = row[f"batched_{work}_s"] / row[f"loops_{work}_s"]
                assert row[f"{work}_ratio"] == pytest.approx(ratio) and ratio > 0


def test_chains_are_compared_on_the_same_density():
    figures = chains(SMALL)
    assert set(figures["sides"]) == {"SGRLD", "Metropolis"}
    assert all(side["worst_ess_per_s"] > 0 for side in figures["sides"].values())
    assert set(figures["apart"]) == {"sigma2", "rho", "tau2"}


def test_repeats_use_different_fields_and_medians_are_returned():
    figures = chains(replace(SMALL, repeats=3))
    ratios = [field["ratio"] for field in figures["each"]]
    assert len(set(ratios)) == 3
    assert figures["ratio"] == sorted(ratios)[1]
    assert figures["apart"]["rho"] == max(field["apart"]["rho"] for field in figures["each"])
