"""`bandgap check` and `bandgap featurize`."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.conftest import Run, Shell

KEYS = {"file", "id", "status", "problems", "formula", "n_atoms", "periodic"}


def test_check_json_writes_one_object_a_line_for_every_structure(run: Run, waters: Path) -> None:
    result = run("check", "--json", waters)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert [row["id"] for row in rows] == [f"water-{k}" for k in range(8)]
    assert all(set(row) == KEYS for row in rows)
    assert {(row["formula"], row["n_atoms"], row["periodic"], row["status"]) for row in rows} == {
        ("H2O", 3, False, "ready")
    }


def test_check_of_a_folder_has_a_line_for_every_file_and_counts_on_stderr(
    shell: Shell, waters: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "crystals"
    folder.mkdir()
    (folder / "waters.extxyz").write_text(waters.read_text())
    (folder / "broken.cif").write_bytes(b"\x00\x01\x02 not a structure")
    result = shell("check", folder, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert {Path(row["file"]).name for row in rows} == {"waters.extxyz", "broken.cif"}
    refused = [row for row in rows if row["status"] == "refused"]
    assert len(refused) == 1 and refused[0]["problems"]
    assert "9 structures: 8 ready, 0 with a warning, 1 refused." in result.stderr
    assert "Traceback" not in result.stderr


def test_check_strict_exits_with_1_when_something_is_refused(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.cif"
    broken.write_bytes(b"")
    assert run("check", waters, "--strict").exit_code == 0
    assert run("check", waters, broken, "--strict").exit_code == 1


def test_featurize_writes_features_and_ids_that_numpy_reads_without_pickle(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    out = tmp_path / "features.npz"
    result = run("featurize", "--structures", waters, "--species", "H", "O", "--out", out)
    assert result.exit_code == 0
    with np.load(out, allow_pickle=False) as stored:
        assert stored["features"].shape == (8, (2 + 3) * 36)
        assert np.isfinite(stored["features"]).all()
        assert list(stored["ids"]) == [f"water-{k}" for k in range(8)]
    assert "180 features for each of 8 structures, 0.0 MB." in result.stderr


def test_featurize_of_an_element_outside_the_species_keeps_the_row_and_names_the_element(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    out = tmp_path / "features.npz"
    result = run("featurize", "--structures", waters, "--species", "H,C", "--out", out)
    with np.load(out, allow_pickle=False) as stored:
        assert np.isnan(stored["features"]).all()
        assert set(stored["status"]) == {"refused"}
        assert all("O" in problem for problem in stored["problem"])
    assert "0 of 8 structures have a descriptor." in result.stdout


@pytest.mark.data
def test_check_names_structures_under_several_ids(run: Run, test_data: Path) -> None:
    result = run("check", "--json", test_data / "field_cases" / "213_same_crystal_twice.extxyz")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    # The sparse cells are also warned of.
    copy_problem = "the same structure as f0, under another id"
    assert [copy_problem in row["problems"] for row in rows[:3]] == [False, True, False]
    assert {row["status"] for row in rows} == {"warning"}
    assert "24 structures are only 12 different ones" in result.stderr
    assert "f0 = f1; f2 = f3; f4 = f5 and 9 more" in result.stderr
