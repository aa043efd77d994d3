"""The plain loop computes NPTL, and the benchmark measures both on the same rows."""

import time

import numpy as np
import pytest
import torch

from bandgap.datasets.table import Table
from bandgap.descriptors import DescriptorConfig, Term
from bandgap.foundation.progress import no_progress
from bandgap.inference.batch.training import StackTraining
from bandgap.networks.perceptron import NetworkConfig, init_params
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceCard, SourceConfig, SourceModel
from bandgap.structures import StructureRecord
from bandgap.transfer import TargetData, nptl
from bandgap.transfer.shared.folds import held_out_masks, start_of
from bandgap.transfer.shared.method import Fitting
from benchmarks.nptl import LOOP, OURS, VARIANTS, NptlBenchmark, measure_pairs, measure_speed
from benchmarks.stopwatch import peak_memory_MB, timed
from benchmarks.textbook import predict_eV, textbook_nptl

P = 5
CPU = torch.device("cpu")
TINY = NptlBenchmark(n=27, samples=2, repeats=1, splits=2, n_paired=20, n_test=10, epochs=2)
DESCRIPTOR = DescriptorConfig(
    species=("H",),
    k1=Term("atomic_number", 0.0, 10.0, 3, 1.0),
    k2=Term(
        "inverse_distance", 0.2, 1.2, 3, 0.1, weighting="exp", cutoff_angstrom=4.0, threshold=0.01
    ),
)


@pytest.fixture
def source():
    network = NetworkConfig(P, (6, 4))
    params = init_params(network, generator=torch.Generator().manual_seed(0))
    plain = Standardiser(np.zeros(P), np.ones(P), 0.0, 1.0)
    return SourceModel(
        params, network, plain, DESCRIPTOR, SourceCard((), 1, ("H",)), SourceConfig((6, 4))
    )


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(45, P)).astype(np.float32)
    records = [StructureRecord(f"made-{i:02d}", "made.xyz", "XYZ", None, ()) for i in range(45)]
    return Table(records, x, np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=45))


def test_textbook_loop_agrees_with_the_batched_trainer(source, table):
    """With one batch per epoch only float32 rounding over 20 steps of Adam differs."""
    data = TargetData(table.features[:30], table.gaps_eV[:30])
    training = StackTraining(coordinates="full", batch_size=100, epochs=20, learning_rate=3e-3)
    config = nptl.NptlConfig(samples=2, alphas=(5.0,), sigma="val", training=training)
    posterior = nptl.fit(source, data, config, Fitting(3, device="cpu"))
    mask = held_out_masks(30, rule="val", seed=3)[0]
    start = start_of(
        source, data, trained=mask, statistics="auto", gap_scale="calibrated", coordinates="full"
    )
    networks = textbook_nptl(
        source,
        start,
        start.standardiser.features(data.features),
        samples=2,
        alpha=5.0,
        blocks=10,
        config=training,
        batch_size=200,
        seed=3,
        device=CPU,
        progress=no_progress,
    )
    new = table.features[30:]
    expected = posterior.mean_draws_eV(new)[0]
    np.testing.assert_allclose(
        predict_eV(networks, start, start.standardiser.features(new)), expected, atol=1e-4
    )
    assert np.abs(expected[0] - expected[1]).max() > 1e-2


def test_all_variants_are_timed_and_tested_on_the_same_rows(source, table):
    figures = measure_speed(TINY, source, table, device="cpu", progress=no_progress)
    assert set(figures) >= {LOOP, OURS, *VARIANTS}
    assert figures[LOOP]["ratio"] == 1.0
    for row in figures.values():
        assert row["seconds"] > 0 and len(row["all_seconds"]) == 1
        assert row["nll_best_sigma"] <= row["nll"] + 1e-9
        assert row["ratio"] == pytest.approx(figures[LOOP]["seconds"] / row["seconds"])
    one_by_one = figures[f"{OURS}, one by one"]
    assert figures[OURS]["rmse_eV"] == pytest.approx(one_by_one["rmse_eV"], abs=1e-5)


def test_pairs_are_differences_within_splits(source, table):
    pairs = measure_pairs(TINY, source, table, device="cpu", progress=no_progress)
    differences = [row["nptl"]["nll"] - row["ensemble"]["nll"] for row in pairs["splits"]]
    assert len(differences) == 2
    assert pairs["nll"]["mean"] == pytest.approx(np.mean(differences))
    assert pairs["nll"]["standard_error"] == pytest.approx(abs(differences[0] - differences[1]) / 2)
    assert pairs["nll"]["won"] == sum(d < 0 for d in differences)


def compute_and_sleep():
    """Use the CPU for 0.2 s and sleep for 0.5 s."""
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    time.sleep(0.5)
    return "done"


def test_cpu_time_does_not_count_waiting():
    result, seconds = timed(compute_and_sleep, device=CPU)
    assert result == "done" and 0.2 <= seconds < 0.4


def test_peak_memory_is_that_of_the_call():
    """torch allocates 200 MB; imports add some tens of MB at most."""
    assert 200 <= peak_memory_MB(torch.ones, 50_000_000) < 300
