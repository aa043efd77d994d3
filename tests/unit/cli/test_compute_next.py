"""`bandgap compute-next`: the ranked list as a CSV, with unranked structures at its end."""

import json
import zipfile
from pathlib import Path

import ase.io
import pytest

from bandgap.structures import read_paths
from tests.unit.cli.conftest import WATER, Run, rows_of


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    """Four waters in separate files; the last file has a line after its atoms that is not read."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    for k in range(4):
        text = WATER.format(id=f"new-{k}", gap=0, height=-0.25 - 0.1 * k)
        (folder / f"{k}.extxyz").write_text(
            text + ("cut off here\n" if k == 3 else ""), encoding="utf-8"
        )
    return folder


@pytest.mark.parametrize("rank_by", ["reduction", "sd", "distance"])
def test_file_with_a_warning_on_its_content_is_last_and_has_no_rank(
    run: Run, model: Path, candidates: Path, tmp_path: Path, rank_by: str
) -> None:
    out = tmp_path / "lists" / "next.csv"
    words = ("--model", model, "--structures", candidates, "--rank-by", rank_by, "--out", out)
    ranked = run("compute-next", *words)
    assert ranked.exit_code == 0, ranked.output
    assert "3 of 3 structures ranked by" in ranked.stdout
    assert "1 structures have a warning on the content of the file and no rank" in ranked.stderr
    rows = rows_of(out)
    assert [row["rank"] for row in rows] == ["1", "2", "3", ""]
    assert {row["id"] for row in rows[:3]} == {"new-0", "new-1", "new-2"} and rows[3][
        "id"
    ] == "new-3"
    assert "was not read" in rows[3]["warning"] and not any(
        "not read" in row["warning"] for row in rows[:3]
    )
    shorter = run("compute-next", *words, "--count", "1")
    assert "1 of 3 structures ranked by" in shorter.stdout


@pytest.mark.parametrize(("form", "file"), [("poscar", "structure.xyz"), ("cif", "structure.xyz")])
def test_ranked_structures_are_written_to_folders_named_after_their_ids(
    run: Run, model: Path, candidates: Path, tmp_path: Path, form: str, file: str
) -> None:
    out = tmp_path / "next.csv"
    archive = tmp_path / "batch" / "next.zip"
    words = ("--model", model, "--structures", candidates, "--count", "2", "--out", out)
    result = run("compute-next", *words, "--structures-out", archive, "--structures-format", form)
    assert result.exit_code == 0, result.output
    assert f"2 structures, each in a folder, written to {archive}" in result.stdout
    ranked = [row["id"] for row in rows_of(out) if row["rank"]]
    with zipfile.ZipFile(archive) as members:
        assert members.namelist() == ["structures.csv", *(f"{id}/{file}" for id in ranked)]
        members.extractall(tmp_path / "unpacked")
    record = read_paths([tmp_path / "unpacked" / ranked[0] / file])[0]
    assert record.formula == "H2O"
    rows = rows_of(tmp_path / "unpacked/structures.csv")
    assert [row["folder"] for row in rows] == ranked


def test_window_ranks_by_its_probability_which_is_that_of_predict(
    run: Run, model: Path, candidates: Path, tmp_path: Path
) -> None:
    words = ("--model", model, "--structures", candidates, "--window", "6:7.5", "--out")
    ranked = run("compute-next", *words, tmp_path / "next.csv", "--no-spread")
    assert ranked.exit_code == 0, ranked.output
    assert "3 of 3 structures ranked by best chance of the window" in ranked.stdout
    assert "Expected in 6 to 7.5 eV: " in ranked.stdout
    chances = {row["id"]: row["p_window"] for row in rows_of(tmp_path / "next.csv")}
    assert list(chances.values())[:3] == sorted(list(chances.values())[:3], reverse=True)
    predicted = run("predict", *words, tmp_path / "predictions.csv")
    assert predicted.exit_code == 0, predicted.output
    table = rows_of(tmp_path / "predictions.csv")
    assert {row["id"]: row["p_window"] for row in table} == chances
    assert {row["window"] for row in table} == {"6:7.5"}
    without = run("compute-next", *words[:4], "--rank-by", "chance", "--out", tmp_path / "no.csv")
    assert without.exit_code == 2 and "needs a window" in without.stderr


def test_structures_of_the_run_leave_the_rank_and_predict_says_so(
    run: Run, model: Path, candidates: Path, waters: Path, tmp_path: Path
) -> None:
    """Under other ids and with their atoms in another order."""
    manifest = json.loads((model / "manifest.json").read_text(encoding="utf-8"))
    n_learned, n_tested = (len(manifest["split"][part]) for part in ("train", "test"))
    copies = tmp_path / "copies.extxyz"
    frames = ase.io.read(waters, ":")
    for k, atoms in enumerate(frames):
        atoms.info["id"] = f"copy-{k}"
    ase.io.write(copies, [atoms[[2, 0, 1]] for atoms in frames])
    words = ("--model", model, "--structures", candidates, "--structures", copies, "--out")
    ranked = run("compute-next", *words, tmp_path / "next.csv")
    assert "3 of 3 structures ranked by" in ranked.stdout, ranked.output
    assert f"as the gap is known: {n_learned + n_tested}." in ranked.stderr
    assert not any("copy" in row["id"] for row in rows_of(tmp_path / "next.csv"))
    predicted = run("predict", *words, tmp_path / "predictions.csv")
    assert f"{n_learned} structures are some that the run learned from" in predicted.stderr
    told_ids = {
        row["id"] for row in rows_of(tmp_path / "predictions.csv") if "as water-" in row["problem"]
    }
    learned_ids = {id_.replace("water", "copy") for id_ in manifest["split"]["train"]}
    assert told_ids == learned_ids and n_learned + n_tested == len(frames)
