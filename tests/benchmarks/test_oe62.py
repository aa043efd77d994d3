"""The benchmark `oe62`: the large file, times and memory, and cross-validation."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from bandgap.datasets.oe62 import LEVELS, read_oe62
from bandgap.foundation.progress import no_progress
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.structures.formats.xyz import extxyz_blocks
from bandgap.transfer.kernel_ridge import KernelRidgeConfig, best_ridge
from benchmarks.commands.oe62 import READING_MB, print_accuracy, print_size
from benchmarks.oe62 import (
    _READ,
    MOLECULES,
    ROWS,
    CrossValidation,
    cross_validate,
    kernel_ridge,
    run_size,
    write_large,
)
from benchmarks.prediction_speed import measure
from tests.unit.conftest import gaps_of, make_records


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder of data sets with small molecules in place of OE62's."""
    records = make_records(60, seed=1, prefix="m")
    gaps = gaps_of(records, seed=1)
    for name in (MOLECULES, ROWS):
        (tmp_path / name).parent.mkdir(exist_ok=True)
    blocks = extxyz_blocks(records, [{"gap_eV": float(gap)} for gap in gaps])
    (tmp_path / MOLECULES).write_bytes(gzip.compress("".join(blocks).encode()))
    rows = []
    for record, gap in zip(records, gaps, strict=True):
        atoms = zip(record.atoms.symbols, record.atoms.positions, strict=True)
        lines = [f"{s} {x:.8f} {y:.8f} {z:.8f}" for s, (x, y, z) in atoms]
        rows.append(
            [
                None,
                "\n".join([str(len(lines)), "", *lines, ""]),
                len(lines),
                [-10.0, -8.0],
                [gap - 8.0],
            ]
        )
    columns = ["refcode_csd", "xyz_pbe_relaxed", "number_of_atoms", *LEVELS["gw_qzvp"][:2]]
    table = {"columns": columns, "index": list(range(60)), "data": rows}
    (tmp_path / ROWS).write_bytes(gzip.compress(json.dumps(table).encode()))
    return tmp_path


def test_large_file_has_requested_size_and_rows_and_displaced_copies(
    data: Path, tmp_path: Path
) -> None:
    size = write_large(
        tmp_path / "df.json", data / ROWS, rows=150, n_bytes=900_000, progress=no_progress
    )
    assert size == (tmp_path / "df.json").stat().st_size == pytest.approx(900_000, rel=0.05)
    real = read_oe62(data / ROWS, level="gw_qzvp")
    large = read_oe62(tmp_path / "df.json", level="gw_qzvp")
    assert (len(large.records), len(large.dropped)) == (150, 0)
    np.testing.assert_allclose(large.gaps_eV[60:120], real.gaps_eV)
    moved = [
        large.records[k].atoms.positions - real.records[k % 60].atoms.positions for k in range(150)
    ]
    assert not np.concatenate(moved[:60]).any()
    assert 0.01 < np.concatenate(moved[60:]).std() < 0.03
    assert len(read_oe62(tmp_path / "df.json", level="pbe").records) == 150


@pytest.mark.slow
def test_reading_and_training_are_measured(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_size(data, rows=120, split=(80, 20), max_epochs=3)
    assert result["bytes"] == pytest.approx(387e6 * 120 / 61_489, rel=0.05)
    for part in ("reading", "training"):
        assert 0 < result[part]["processor_s"] < 300 and 50 < result[part]["peak_MB"] < 2_000
    print_size(result)
    out = capsys.readouterr().out
    assert "training: 3 epochs, " in out and "reading: 120 rows read, 120 kept." in out
    assert "120 molecules in 1 MB of JSON." in out and "1,500" in out and "3,000" in out


def test_each_molecule_is_predicted_once_and_models_are_better_than_the_mean(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = list(cross_validate(data, CrossValidation(2, ("thesis-1260",), networks=2)))
    assert [row["model"] for row in rows] == [
        "the mean gap",
        "source network",
        "mean of 2 source networks",
        "kernel ridge",
    ]
    mean, network, networks, ridge = (row["rmse_eV"] for row in rows)
    assert max(network, networks, ridge) < 0.7 * mean
    for row in rows:
        assert row["n"] == 60 and len(row["rmse_of_folds_eV"]) == 2
        assert row["rmse_eV"] ** 2 == pytest.approx(np.mean(np.square(row["rmse_of_folds_eV"])))
    print_accuracy(rows)
    out = capsys.readouterr().out
    assert "60 molecules, each predicted by models trained without it (2 folds)." in out
    assert f"{ridge:.3f}" in out


def test_kernel_ridge_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4)).astype(np.float32)
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=50)
    new = rng.normal(size=(7, 4)).astype(np.float32)
    rows = TrainingRows.of(x)
    config = KernelRidgeConfig()
    distances = rows.own_distances("cityblock")
    lengths = typical_distance(distances) * np.array(config.lengths)
    fits = [
        best_ridge(np.exp(-distances / s), y - y.mean(), penalties=config.penalties)
        for s in lengths
    ]
    best = int(np.argmin([fit.mean_square for fit in fits]))
    other = KernelRidge(kernel="laplacian", gamma=1 / lengths[best], alpha=fits[best].penalty)
    other.fit(rows.scaled(), y - y.mean())
    np.testing.assert_allclose(
        kernel_ridge(x, y, new), y.mean() + other.predict(rows.scaled(new)), rtol=1e-6
    )


@pytest.mark.soak
@pytest.mark.data
@pytest.mark.skipif(
    "BANDGAP_TEST_DATA" not in os.environ, reason="BANDGAP_TEST_DATA names no folder"
)
def test_file_of_the_published_size_is_read_in_less_than_1500_MB(
    tmp_path: Path,
) -> None:
    real = Path(os.environ["BANDGAP_TEST_DATA"]) / ROWS
    assert write_large(tmp_path / "df_62k.json", real, progress=no_progress) > 380e6
    measured = measure((tmp_path / "df_62k.json",), program=_READ)
    assert "61,489 rows read, 61,489 kept." in measured.output
    assert measured.peak_bytes < 1e6 * READING_MB
