"""Measurement of commands in separate processes, and the table of the benchmark `predict`."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.gaps import labels_from_info
from bandgap.foundation.errors import BandgapError, ConfigError
from bandgap.structures import read_paths
from benchmarks.commands.scale import print_speed
from benchmarks.prediction_speed import THIS, SpeedBenchmark, measure, slopes, write_copies
from tests.unit.conftest import make_records


def test_measured_command_has_times_and_peak_memory() -> None:
    measured = measure(("--version",))
    assert 0 < measured.processor_s < 60
    assert measured.clock_s > 0
    assert 5e6 < measured.peak_bytes < 2e9


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


def test_copies_have_gaps_if_requested(tmp_path: Path) -> None:
    write_copies(tmp_path / "a.extxyz", make_records(4, seed=1, prefix="m"), 6, gaps=True)
    gaps = labels_from_info(read_paths([tmp_path / "a.extxyz"]), "gap_eV")
    assert np.isfinite(gaps).all() and gaps.std() > 0.1


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


def test_ratios_of_medians_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    sides = {"this, 1 jobs": (2.0, 1.9), "other, 1 jobs": (8.0, 5.7), "this, 2 jobs": (1.0, 2.1)}
    runs = {
        name: {"clock_s": clock, "processor_s": work, "peak_MB": 400.0}
        for name, (clock, work) in sides.items()
    }
    print_speed({"n": 4000, "load": 0.4, "runs": runs})
    out = capsys.readouterr().out
    assert (
        "this, 1 jobs is 4.00 times as fast as other, 1 jobs in wall-clock time, "
        "3.00 times in CPU time" in out
    )
    assert "this, 1 jobs is 0.50 times as fast as this, 2 jobs in wall-clock time" in out
    assert "4,000 structures; load of the machine 0.4" in out


def test_ratios_without_the_start_subtract_the_start_of_each_side(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sides = {"this, 1 jobs": (5.0, 4.0), "other, 1 jobs": (21.0, 8.0), "this, 2 jobs": (4.0, 5.0)}
    start = {"start_clock_s": 3.0, "start_processor_s": 2.0, "peak_MB": 400.0}
    runs = {
        name: {"clock_s": clock, "processor_s": work} | start
        for name, (clock, work) in sides.items()
    }
    print_speed({"n": 4000, "load": 0.4, "runs": runs})
    out = capsys.readouterr().out
    assert "; without the start 9.00 and 3.00 times." in out
    assert (
        "as this, 2 jobs in wall-clock time, 1.25 times in CPU time; "
        "without the start 0.50 and 1.50 times." in out
    )
    assert "structure: this, 1 jobs 3.0 s, other, 1 jobs 3.0 s, this, 2 jobs 3.0 s." in out


def test_invalid_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no checkout of bandgap"):
        SpeedBenchmark(tmp_path, tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="0 repeats"):
        SpeedBenchmark(tmp_path, tmp_path, THIS, repeats=0)
