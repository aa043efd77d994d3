"""The benchmark of labels chosen next: arithmetic of curves, choice of labels, settings."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk
from ase.io import write

from bandgap.datasets.table import Table
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.window import Window
from benchmarks.crystals import CrystalSet
from benchmarks.next_labels import (
    NEXT_SETS,
    RESULTS,
    STRATEGIES,
    NextBenchmark,
    NextFit,
    NextSet,
    choose_labels,
    figures_by_strategy,
    labels_needed,
    paired_difference,
    ranked,
    run_next,
    saved_share,
)

N_DRAWS = 400


def draws_of_means(means: np.ndarray, noise_eV: float = 0.1) -> PredictiveDraws:
    return PredictiveDraws(means[None], means, np.full(len(means), noise_eV))


@dataclass
class LineLearner:
    """Predicts the first feature with a spread that is the second one."""

    window: Window = Window(1.0, 2.0)

    def predict(self, train: Table, features: np.ndarray) -> PredictiveDraws:
        rng = np.random.default_rng(len(train))
        spread = rng.normal(size=(N_DRAWS, len(features))) * features[:, 1]
        return draws_of_means(features[:, 0] + spread)


def table_of(gaps: np.ndarray, spreads: np.ndarray) -> Table:
    features = np.column_stack([gaps, spreads]).astype(np.float32)
    return Table([object()] * len(gaps), features, gaps)  # type: ignore[list-item]


def test_labels_needed_between_two_sizes_is_interpolated() -> None:
    assert labels_needed([20, 30, 40], np.array([1.0, 0.8, 0.4]), 0.6) == pytest.approx(35.0)
    assert labels_needed([20, 30], np.array([0.5, 0.4]), 0.6) == 20.0
    assert np.isnan(labels_needed([20, 30], np.array([1.0, 0.9]), 0.6))


def test_saved_share_says_when_the_error_is_not_reached() -> None:
    random_errors = np.array([[1.0, 0.8], [1.0, 0.6]])
    assert saved_share([20, 40], np.array([[1.0, 0.4]] * 2), random_errors) == "30 of 40"
    assert saved_share([20, 40], np.array([[1.0, 0.9]] * 2), random_errors) == "more than 40"


def test_paired_difference_leaves_out_the_common_start() -> None:
    random_errors = np.array([[9.0, 1.0], [9.0, 2.0]])
    assert paired_difference(np.array([[5.0, 0.9], [5.0, 1.9]]), random_errors).startswith("-0.100")


def test_reduction_prefers_structures_that_the_model_does_not_know() -> None:
    spread = np.array([0.01, 1.0, 0.02, 0.8])
    means = np.random.default_rng(0).normal(size=(N_DRAWS, 4)) * spread
    assert set(ranked(draws_of_means(means), "reduction", 2, Window(1.0, 2.0))) == {1, 3}


def test_improvement_prefers_structures_in_the_middle_of_the_window() -> None:
    means = np.tile([0.2, 1.5, 3.0], (N_DRAWS, 1))
    assert ranked(draws_of_means(means), "improvement", 1, Window(1.0, 2.0)).tolist() == [1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_labels_are_added_in_batches_and_never_twice(strategy: str) -> None:
    rng = np.random.default_rng(1)
    pool = table_of(rng.uniform(0, 4, 40), rng.uniform(0.1, 1, 40))
    config = NextBenchmark(n_start=5, n_most=22, batch=10, pool=40)
    steps = list(choose_labels(LineLearner(), pool, pool, strategy=strategy, config=config))
    assert [n for n, _, _ in steps] == [5, 15, 22]
    labelled = steps[-1][2]
    assert len(set(labelled.tolist())) == 22
    assert labelled[:5].tolist() == [0, 1, 2, 3, 4]


def test_seed_that_was_cut_short_is_left_out() -> None:
    fits = [
        NextFit("metals", "random", seed, n, 0.1 * seed, 0, 5)
        for seed, n in ((0, 20), (0, 30), (1, 20))
    ]
    sizes, values = figures_by_strategy(fits, "metals", "rmse_eV")["random"]
    assert (sizes, values.shape) == ([20, 30], (1, 2))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with 40 labelled rock salts, which are the set "salts"."""
    frames = [bulk("NaCl", "rocksalt", a=4.0 + 0.05 * k) for k in range(40)]
    for k, atoms in enumerate(frames):
        atoms.info = {"id": f"s{k}", "gap_eV": 9.0 - 0.1 * k}
    write(tmp_path / "salts.extxyz", frames)
    crystals = CrystalSet("salts.extxyz", "", "PBE", (20,), 10)
    salts = NextSet(crystals, "kernel_ridge", Window(6.0, 7.0), n_test=10, n_described=40)
    monkeypatch.setitem(NEXT_SETS, "salts", salts)
    return tmp_path


def test_interrupted_call_resumes_and_a_repeated_one_computes_nothing(
    data: Path, tmp_path: Path
) -> None:
    """A strategy that was cut short is repeated from its start."""
    out = tmp_path / "out"
    config = NextBenchmark(
        ("salts",), ("random", "reduction"), seeds=(0,), n_start=10, n_most=22, pool=30
    )
    interrupted = run_next(data, out, config)
    for _ in range(4):
        next(interrupted)
    interrupted.close()
    fits = list(run_next(data, out, config))
    assert [(fit.strategy, fit.n) for fit in fits] == [
        (strategy, n) for strategy in ("random", "reduction") for n in (10, 20, 22)
    ]
    lines = (out / RESULTS).read_text().splitlines()
    assert len(lines) == 4 + 3
    assert list(run_next(data, out, config)) == fits
    assert (out / RESULTS).read_text().splitlines() == lines
    more_labels = replace(config, strategies=("random",), n_most=25)
    assert [fit.n for fit in run_next(data, out, more_labels)] == [10, 20, 25]
