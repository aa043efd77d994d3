"""The benchmark on metals, on made-up salts: both sides of a split, resuming, printed means."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from ase.build import bulk

from bandgap.datasets.demo_files import inorganic_source_folder
from bandgap.descriptors.cache import DescriptorCache
from bandgap.runs.compared_fits import ComparedFit
from bandgap.sources.measured_errors import read_table
from benchmarks.__main__ import app
from benchmarks.commands.metals import print_metals
from benchmarks.metals import (
    AS_GAPS,
    PEROVSKITES,
    RESULTS,
    MetalsBenchmark,
    measured_rows,
    run_metals,
)
from tests.benchmarks.test_crystals import write_archive
from tests.commands import run_in_process, use_own_home

N = 40
N_TEST = 20
CONFIG = MetalsBenchmark(
    ("kernel_ridge",), sizes=(N,), n_test=N_TEST, seeds=(0,), potentials=("none",)
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 rock salts, of which the wider half are metals."""
    folder = tmp_path_factory.mktemp("data")
    names = [f"{metal}{other}" for metal in ("Na", "K", "Rb", "Mg") for other in ("Cl", "Br", "I")]
    salts = [bulk(name, "rocksalt", a=a) for a in (4.8, 5.0, 5.2, 5.6, 5.8) for name in names]
    gaps_eV = [
        4.0 - 0.05 * float(np.mean(atoms.numbers)) if k < 30 else 0.0
        for k, atoms in enumerate(salts)
    ]
    write_archive(folder, PEROVSKITES, salts, gaps_eV)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> DescriptorCache:
    return DescriptorCache(tmp_path_factory.mktemp("cache"))


def lines_in(out: Path) -> list[str]:
    return (out / RESULTS).read_text(encoding="utf-8").splitlines()


def test_classifier_recognises_metals_that_a_mean_gap_does_not(
    data: Path, tmp_path: Path, cache: DescriptorCache
) -> None:
    as_gaps, with_metals = run_metals(data, tmp_path, CONFIG, cache=cache)
    assert (as_gaps.method, with_metals.method) == (f"kernel_ridge{AS_GAPS}", "kernel_ridge")
    assert with_metals.figures["below_zero"] == 0.0 < as_gaps.figures["below_zero"]
    assert "width_certain_eV" not in as_gaps.figures
    assert with_metals.figures["auc"] >= 0.9
    assert with_metals.figures["crps_eV"] < as_gaps.figures["crps_eV"]


def test_interrupted_call_resumes_and_a_repeated_one_fits_nothing(
    data: Path, tmp_path: Path, cache: DescriptorCache
) -> None:
    config = dataclasses.replace(CONFIG, seeds=(0, 1))
    interrupted = run_metals(data, tmp_path, config, cache=cache)
    first = next(interrupted)
    interrupted.close()
    assert len(lines_in(tmp_path)) == 1
    fits = list(run_metals(data, tmp_path, config, cache=cache))
    assert fits[0] == first
    assert [(fit.method, fit.seed) for fit in fits] == [
        (f"kernel_ridge{AS_GAPS}", 0),
        ("kernel_ridge", 0),
        (f"kernel_ridge{AS_GAPS}", 1),
        ("kernel_ridge", 1),
    ]
    assert len(lines_in(tmp_path)) == 4
    assert list(run_metals(data, tmp_path, config, cache=cache)) == fits
    assert len(lines_in(tmp_path)) == 4


@pytest.mark.slow
def test_transfer_method_starts_from_the_source(
    data: Path, tmp_path: Path, cache: DescriptorCache
) -> None:
    config = dataclasses.replace(
        CONFIG, methods=("last_layer_ridge",), source=inorganic_source_folder()
    )
    fits = list(run_metals(data, tmp_path, config, cache=cache))
    assert [fit.method for fit in fits] == [f"last_layer_ridge{AS_GAPS}", "last_layer_ridge"]
    assert all(fit.made_of["source"] for fit in fits)


def fit_with(method: str, seed: int, **figures: float) -> ComparedFit:
    return ComparedFit(method, N, seed, figures, 1.0, made_of={})


def test_rows_of_the_table_are_of_fits_with_metals() -> None:
    fits = [
        fit_with(name, seed, rmse_eV=error)
        for name, error in (("stacking", 0.7), (f"stacking{AS_GAPS}", 0.8))
        for seed in range(3)
    ]
    config = MetalsBenchmark(n_test=N_TEST, potentials=("chgnet-two-layers",))
    (row,) = measured_rows(fits, config, date="2026-11-28", command="c")
    assert (row.kind, row.method, row.rmse_eV) == (PEROVSKITES.kind, "stacking", 0.7)
    assert (row.n, row.n_test, row.source, row.extras) == (N, N_TEST, "none", "chgnet")


def test_printed_figures_of_some_rows_are_means_over_the_rows_of_all_splits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    common = {"rmse_eV": 1.0, "auc": 0.8, "coverage_95": 0.9, "below_zero": 0.0, "width_eV": 2.0}
    fits = []
    for name, crps_eV in (("stacking", 0.3), (f"stacking{AS_GAPS}", 0.4)):
        # Coverage of 100 % of one structure and of 50 % of three; no certain metal.
        for seed, (share, count) in enumerate(((1.0, 1.0), (0.5, 3.0))):
            figures = {**common, "crps_eV": crps_eV, "coverage_large": share, "n_large": count}
            fits.append(fit_with(name, seed, n_certain=0.0, **figures))
    print_metals("stacking", fits)
    printed = capsys.readouterr().out
    assert f"stacking, n = {N}: 2 splits" in printed
    assert "62.5" in printed and "75.0" not in printed
    assert "CRPS with metals: -25.0 %." in printed


@pytest.mark.slow
def test_command_writes_the_table_of_errors(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_home(tmp_path, monkeypatch)
    table = tmp_path / "errors.csv"
    words = f"metals --data {data} --out {tmp_path / 'out'} --method kernel_ridge --n {N}"
    words += f" --n-test {N_TEST} --seeds 3 --potential none --no-zeros-as-gaps --table {table}"
    result = run_in_process(app)(*words.split())
    assert result.exit_code == 0
    (row,) = read_table(table)
    assert (row.kind, row.method, row.splits) == (PEROVSKITES.kind, "kernel_ridge", "3")
