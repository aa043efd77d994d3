"""`bandgap check` and `bandgap featurize`."""

import json
from itertools import chain
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


POSCAR = "x\n{scale}\n{a} 0 0\n0 {a} 0\n0 0 {a}\nNa Cl\n1 1\nDirect\n0 0 0\n{x} 0.5 0.5\n"
AIMS = (
    "lattice_vector {a} 0 0\nlattice_vector 0 {a} 0\nlattice_vector 0 0 {a}\natom_frac {x} 0 0 C\n"
)


def test_check_of_numbers_that_no_arithmetic_bears_gives_verdicts_and_no_warning_of_numpy(
    shell: Shell, tmp_path: Path
) -> None:
    extremes = ("1e308", "-1e308", "1e200", "1e160", "1e-160", "1e-320", "nan", "inf")
    fine = {"scale": "1.0", "a": "3.5", "x": "0.5"}
    for name, extreme in ((name, extreme) for name in fine for extreme in extremes):
        folder = tmp_path / "damaged" / f"{name}_{extreme}"
        folder.mkdir(parents=True)
        (folder / "POSCAR").write_text(POSCAR.format(**fine | {name: extreme}))
        (folder / "geometry.in").write_text(AIMS.format(**fine | {name: extreme}))
    result = shell("check", tmp_path / "damaged", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.returncode == 0
    assert "Warning" not in result.stderr
    counts, copies = result.stderr.splitlines()[1:]
    assert counts == "48 structures: 1 ready, 11 with a warning, 36 refused."
    assert copies.startswith("12 structures are only 2 different ones")
    for row in rows:
        file = Path(row["file"])
        small = file.parent.name in ("x_1e-160", "x_1e-320")
        unscaled = file.name == "geometry.in" and file.parent.name.startswith("scale")
        assert (row["status"] != "refused") == (small or unscaled), row


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


@pytest.mark.data
def test_transfer_says_how_many_structures_are_copies(
    run: Run, test_data: Path, tmp_path: Path
) -> None:
    path = test_data / "field_cases" / "213_same_crystal_twice.extxyz"
    options = {
        "--source": "none",
        "--method": "random_forest",
        "--structures": path,
        "--label": "gap_eV",
        "--n": 12,
        "--n-test": 6,
        "--out": tmp_path / "run",
    }
    result = run("transfer", *chain.from_iterable(options.items()))
    assert result.exit_code == 0, result.stderr
    assert "12 of 24 labelled structures are copies of others under different ids" in result.stdout
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["data"]["n_copies"] == 12
    crystals = {
        side: {int(id[1:]) // 2 for id in manifest["split"][side]} for side in ("train", "test")
    }
    assert not crystals["train"] & crystals["test"]
