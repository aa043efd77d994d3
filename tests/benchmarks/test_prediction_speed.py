"""Measurement of commands in separate processes, and the table of the benchmark `predict`."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import BandgapError
from bandgap.structures import read_paths
from benchmarks.prediction_speed import measure, slopes, write_copies
from tests.unit.conftest import make_records


def test_peak_memory_of_a_command_does_not_include_that_of_this_process() -> None:
    memory_of_this_process = bytearray(600_000_000)
    assert measure(("--version",)).peak_bytes < 3e8 < len(memory_of_this_process)


def test_failure_of_a_measured_command_is_an_error_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(BandgapError, match=r"bandgap predict of .* failed: .*absent"):
        measure(
            (
                "predict",
                "--model",
                tmp_path,
                "--structures",
                tmp_path / "absent",
                "--out",
                tmp_path / "t.csv",
            )
        )


def test_command_of_another_checkout_runs_the_code_of_that_checkout(tmp_path: Path) -> None:
    cli = tmp_path / "bandgap" / "cli"
    cli.mkdir(parents=True)
    (cli.parent / "__init__.py").touch()
    (cli / "__init__.py").write_text("def main() -> None:\n    print('the other checkout')\n")
    assert measure(["predict"], checkout=tmp_path).output == "the other checkout\n"


def test_missing_structures_are_displaced_copies(tmp_path: Path) -> None:
    records = make_records(4, seed=1, prefix="m")
    write_copies(tmp_path / "a.extxyz", records, 10)
    read = read_paths([tmp_path / "a.extxyz"])
    assert [r.id for r in read] == [f"m-{k % 4:02d}_{k // 4}" for k in range(10)]
    moved = np.concatenate(
        [read[k].atoms.positions - records[k % 4].atoms.positions for k in range(4, 10)]
    )
    assert 0.01 < moved.std() < 0.03
    np.testing.assert_allclose(read[2].atoms.positions, records[2].atoms.positions, atol=1e-8)


def test_slope_of_a_power_is_its_exponent() -> None:
    rows = [
        {"task": t, "n": n, "s": 2.0 * n**k}
        for t, k in (("a", 1.5), ("b", 0.0))
        for n in (10, 100, 1000)
    ]
    assert slopes([*rows, {"task": "c", "n": 5, "s": 1.0}], "s") == {
        "a": 1.5,
        "b": pytest.approx(0.0),
    }
