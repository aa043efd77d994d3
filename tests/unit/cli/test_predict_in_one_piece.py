"""`bandgap predict` of few structures, in one piece, gives the files of one in chunks."""

import zipfile
from pathlib import Path

import pytest

from bandgap.cli import prediction
from tests.unit.cli.conftest import Run

N = 8


def as_zip(waters: Path, path: Path) -> Path:
    """Return a zip archive of the molecules in two files, so that all ids repeat, and a bad one."""
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
        for name in ("a.extxyz", "b.extxyz"):
            archive.writestr(name, waters.read_text())
        archive.writestr("bad.cif", "data_x\n")
    return path.with_suffix(".zip")


def test_files_are_those_of_the_prediction_in_chunks(
    run: Run, model: Path, waters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    structures = as_zip(waters, tmp_path / "new")
    files = {}
    for in_memory, jobs in ((100, 1), (2, 1), (2, 2)):
        monkeypatch.setattr(prediction, "IN_MEMORY", in_memory)
        folder = tmp_path / f"{in_memory}-{jobs}"
        done = run(
            *("predict", "--model", model, "--structures", structures, "--jobs", jobs),
            *("--out", folder / "t.csv", "--extxyz", folder / "s.extxyz"),
        )
        assert done.exit_code == 0, done.output
        assert ("descriptors (" in done.stderr) == (in_memory == 100)
        files[folder] = {path.name: path.read_bytes() for path in folder.iterdir()}
    in_one_piece, *in_chunks = files.values()
    assert sorted(in_one_piece) == ["s.extxyz", "s.extxyz.json", "t.csv", "t.csv.json"]
    assert in_one_piece["t.csv"].count(b"\n") > N
    assert all(in_one_piece == other for other in in_chunks)


def test_input_is_predicted_in_one_piece_up_to_the_limit(
    run: Run, model: Path, waters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A phase "descriptors" is reported only by the prediction in one piece."""
    out = tmp_path / "t.csv"
    words = ("predict", "--model", model, "--structures", waters, "--out", out)
    tables = set()
    for in_memory in (N - 1, N, N + 1):
        monkeypatch.setattr(prediction, "IN_MEMORY", in_memory)
        done = run(*words)
        assert done.exit_code == 0, done.output
        assert ("descriptors (" in done.stderr) == (in_memory >= N)
        tables.add(out.read_bytes())
    assert len(tables) == 1
    monkeypatch.setattr(prediction, "IN_MEMORY", 100)
    assert "descriptors (" not in run(*words, "--chunk", 1).stderr  # more than four chunks
