"""`bandgap learning-curve`: a table and a sentence from a stored run."""

import csv
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, write_waters

WORDS = "--source none --label gap_eV --method kernel_ridge --species H O --n-test 20".split()


@pytest.fixture
def transferred(run: Run, tmp_path: Path) -> Path:
    """A run that learned from 40 waters and held out 20."""
    data = write_waters(tmp_path / "waters.extxyz", n=60, shift_eV=0.0, name="w")
    done = run("transfer", "--structures", data, *WORDS, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


def test_learning_curve_needs_only_the_run(run: Run, transferred: Path, tmp_path: Path) -> None:
    out = tmp_path / "curve.csv"
    done = run("learning-curve", transferred, "--out", out, "--more", 10, "--seeds", 2)
    assert done.exit_code == 0, done.output
    assert "10 more labels: about 0." in done.stdout
    with out.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["n", "kind", "rmse_eV", "lower_eV", "upper_eV"]
    assert [row["n"] for row in rows if row["kind"] == "mean"] == ["10", "20", "30", "40"]


def test_too_few_labels_are_refused_before_the_structures_are_read(
    run: Run, tmp_path: Path
) -> None:
    data = write_waters(tmp_path / "waters.extxyz", n=50, shift_eV=0.0, name="w")
    done = run("transfer", "--structures", data, *WORDS, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    data.unlink()
    refused = run("learning-curve", tmp_path / "run", "--out", tmp_path / "curve.csv")
    assert refused.exit_code == 1
    assert "learned from 30 labels. A learning curve needs at least 40" in refused.stderr
    assert not (tmp_path / "curve.csv").exists()
