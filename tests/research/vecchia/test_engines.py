"""Loops and batched tensors: which is taken, and that fits and samplers do the same with either."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from bandgap.research.vecchia import batched, gp
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.engines import can_move, device_of, sites_on
from bandgap.research.vecchia.langevin import LangevinConfig
from bandgap.research.vecchia.likelihood import Blocks, Theta
from bandgap.research.vecchia.metropolis import MetropolisConfig
from bandgap.research.vecchia.target import log_likelihood
from tests.research.vecchia.samples import THETA, TRUTH, blocks_of, field

CPU = torch.device("cpu")
ROUNDING = 1e-7  # of draws; sums in another order differ by 1e-13 and chains forget it
BRIEF = {
    "metropolis": gp.GPConfig(
        sampler="metropolis", metropolis=MetropolisConfig(chains=2, warmup=20, draws=40)
    ),
    "batches": gp.GPConfig(sgrld=LangevinConfig(batch=30, chains=2, warmup=20, draws=40, thin=2)),
}


def fitted(name, engine, *, device="cpu"):
    points, rows, y = field(140, 2, TRUTH, seed=4)
    config = replace(BRIEF[name], likelihood="vecchia", neighbours=8, engine=engine)
    return gp.fit(points, y, config, covariates=rows, seed=3, device=device)


def agree(draws, expected):
    assert draws.nu == expected.nu
    np.testing.assert_allclose(draws.mode.eta, expected.mode.eta, atol=ROUNDING)
    np.testing.assert_allclose(draws.mode.precision, expected.mode.precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(draws.traces.eta, expected.traces.eta, atol=ROUNDING)
    np.testing.assert_allclose(draws.traces.beta, expected.traces.beta, atol=ROUNDING)
    assert draws.traces.figures == pytest.approx(dict(expected.traces.figures))
    points, rows, _ = field(10, 2, TRUTH, seed=9)
    one, other = (
        process.predict(points, rows).interval(0.9, kind="observation")
        for process in (draws, expected)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("name", BRIEF)
def test_fit_has_the_same_mode_draws_and_predictions_with_either_engine(name):
    agree(fitted(name, "batched"), fitted(name, "loops"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("name", BRIEF)
def test_fit_on_a_gpu_is_that_of_the_loops(name):
    agree(fitted(name, "auto", device="cuda"), fitted(name, "loops"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.8])
def test_terms_on_a_gpu_are_those_of_the_loops(nu):
    blocks = blocks_of(60, 3, THETA, m=7)
    theta = THETA._replace(nu=nu)
    for index, free in ((None, True), (None, False), (np.arange(0, 60, 7), False)):
        loops, tensors = (
            sites.terms(index, theta, np.zeros(2), free_nu=free)
            for sites in (blocks, BatchedSites(blocks, torch.device("cuda")))
        )
        for name in (
            "loglik",
            "p1",
            "p2",
            "p3",
            "p4",
            "grad_beta",
            "grad_log_theta",
            "fisher_log_theta",
        ):
            np.testing.assert_allclose(
                getattr(tensors, name), getattr(loops, name), rtol=1e-9, atol=1e-9
            )


@pytest.mark.parametrize(
    ("engine", "device", "expected"),
    [
        ("auto", "cpu", Blocks),
        ("loops", "cpu", Blocks),
        ("batched", "cpu", BatchedSites),
        ("auto", "cuda", BatchedSites),
        ("batched", "cuda", BatchedSites),
    ],
)
def test_engine_depends_on_the_device_unless_it_is_named(engine, device, expected):
    assert (
        type(sites_on(blocks_of(8, 2, THETA, m=3), engine, device=torch.device(device))) is expected
    )


def test_loops_and_the_default_use_the_cpu():
    assert device_of("loops") == device_of("auto") == CPU
    assert device_of("batched", "cpu") == device_of("auto", "cpu") == CPU


@pytest.mark.parametrize(
    "change", [{"CHUNK_ENTRIES": {"cpu": 100}}, {"MAX_STORED_BYTES": {"cpu": 10}}], ids=str
)
def test_chunks_and_recomputed_distances_do_not_change_terms(monkeypatch, change):
    blocks = blocks_of(24, 2, THETA, m=5)
    theta = THETA._replace(nu=1.5)
    stored = BatchedSites(blocks, CPU).terms(None, theta, np.zeros(2))
    for name, value in change.items():
        monkeypatch.setattr(batched, name, value)
    recomputed = BatchedSites(blocks, CPU).terms(None, theta, np.zeros(2))
    for name in ("loglik", "p1", "p3", "p4", "grad_log_theta", "fisher_log_theta"):
        np.testing.assert_allclose(
            getattr(recomputed, name), getattr(stored, name), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize(
    "wrap", [lambda b: b, lambda b: BatchedSites(b, CPU)], ids=["loops", "batched"]
)
def test_covariance_without_a_factor_has_no_density_at_any_trend(wrap):
    """At a billionth of the range the integral of smoothness 4 is cut off: such correlations are
    none.
    """
    blocks = blocks_of(30, 2, THETA, m=12, covariates=1)
    terms = wrap(blocks).terms(None, Theta(1.0, 1e9, 4.0, 1e-300), np.zeros(1))
    assert terms.loglik == -np.inf
    assert log_likelihood(terms, np.ones(1), n=30) == -np.inf


def test_only_sites_that_are_not_on_a_gpu_can_move():
    blocks = blocks_of(60, 2, TRUTH, m=8)
    assert can_move(blocks) and can_move(BatchedSites(blocks, CPU))
    assert not can_move(BatchedSites(blocks, torch.device("cuda")))


@pytest.mark.parametrize("engine", ["loops", "batched"])
def test_sites_are_pickled_without_cached_arrays(engine):
    sites = sites_on(blocks_of(60, 2, TRUTH, m=8), engine, device=CPU)
    before = pickle.dumps(sites)
    expected = sites.terms(None, THETA, np.zeros(sites.p))
    # Distances, or the table on the device.
    assert vars(sites).keys() > {part.name for part in fields(sites)}
    assert pickle.dumps(sites) == before
    assert pickle.loads(before).terms(None, THETA, np.zeros(sites.p)).loglik == expected.loglik
