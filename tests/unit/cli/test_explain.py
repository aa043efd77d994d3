"""`bandgap explain`: the labelled structures are found again, and the table is written."""

import csv
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

WORDS = "--label gap_eV --level-of-theory PBE --method kernel_ridge --n-test 3".split()


@pytest.fixture
def transferred(run: Run, source_folder: Path, waters: Path, tmp_path: Path) -> Path:
    model = tmp_path / "run"
    data = ("--source", source_folder, "--structures", waters)
    done = run("transfer", *data, *WORDS, "--out", model)
    assert done.exit_code == 0, done.stderr
    return model


def test_explain_needs_only_the_run_and_new_structures(
    run: Run, transferred: Path, waters: Path, tmp_path: Path
) -> None:
    out = tmp_path / "reasons.csv"
    (tmp_path / "broken.cif").write_text("data_broken\n")
    new = ("--new", waters, "--new", tmp_path / "broken.cif")
    done = run("explain", transferred, *new, "--count", 3, "--out", out)
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader(out.read_text().splitlines()))
    ids = {row["id"] for row in rows}
    assert len(ids) == 8
    for id_ in ids:
        labels = [row for row in rows if row["id"] == id_ and row["part"] == "label"]
        assert len(labels) == 3
        assert all(row["weight"] and row["change_eV"] for row in labels)
        sds = {row["name"] for row in rows if row["id"] == id_ and row["part"] == "sd"}
        assert sds == {"noise", "model"}
    assert "1 of 9 structures left out" in done.stderr
    assert f"explanations written to {out}" in done.stdout
