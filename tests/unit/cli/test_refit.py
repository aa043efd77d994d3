"""`bandgap refit`: the files of the transfer are found again, and other places can be named."""

import html
import json
import shutil
from pathlib import Path

import pytest

from bandgap.storage.run_archives import run_archive
from tests.unit.cli.conftest import Run, commands_in, write_eight_waters

WORDS = "--label gap_eV --level-of-theory PBE --method freeze --n-test 3".split()
WORDS += ["--set", 'training={"max_epochs": 3}']


@pytest.fixture(scope="module")
def first_transferred(source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned from five waters next to it and held out three."""
    folder = tmp_path_factory.mktemp("transferred")
    model = folder / "run"
    waters = write_eight_waters(folder)
    with commands_in(folder) as run:
        data = ("--source", source_folder, "--structures", waters)
        done = run("transfer", *data, *WORDS, "--out", model)
    assert done.exit_code == 0
    assert f"bandgap refit {model} --out {model}-all" in done.stderr
    return model


@pytest.fixture
def transferred(first_transferred: Path, waters: Path, tmp_path: Path) -> Path:
    """A copy of the run, which learned from the waters of the test."""
    model = shutil.copytree(first_transferred, tmp_path / "run")
    file = model / "manifest.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(str(first_transferred.parent), str(tmp_path)), encoding="utf-8")
    return model


def test_refit_needs_only_the_run_and_learns_from_all(
    run: Run, transferred: Path, tmp_path: Path
) -> None:
    out = tmp_path / "all"
    done = run("refit", transferred, "--out", out)
    assert done.exit_code == 0
    assert (
        "Learned from all 8 labels. Error and coverage are those of run, which learned from 5 and "
        "was tested on 3 others." in done.stdout
    )
    manifest, before = (
        json.loads((folder / "manifest.json").read_text()) for folder in (out, transferred)
    )
    assert manifest["n"] == 8
    assert manifest["metrics"] == before["metrics"]
    assert manifest["inputs"] == before["inputs"]
    assert manifest["level_of_theory"] == "PBE"


def test_refit_reads_moved_structures_where_the_option_says(
    run: Run, transferred: Path, waters: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved" / waters.name
    moved.parent.mkdir()
    shutil.move(waters, moved)
    failed = run("refit", transferred, "--out", tmp_path / "all")
    assert failed.exit_code == 1
    assert "does not exist here" in failed.stderr and "give --structures" in failed.stderr
    done = run("refit", transferred, "--structures", moved, "--out", tmp_path / "all")
    assert done.exit_code == 0


def test_refit_of_a_run_without_inputs_asks_for_them(
    run: Run, transferred: Path, tmp_path: Path
) -> None:
    file = transferred / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["inputs"]
    file.write_text(json.dumps(manifest))
    failed = run("refit", transferred, "--out", tmp_path / "all")
    assert failed.exit_code == 1
    assert "does not say which files it was made from" in failed.stderr
    assert "Give --source, --structures, --label(s)." in failed.stderr


def test_zip_of_a_run_predicts_and_reports_like_its_folder(
    run: Run, transferred: Path, waters: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "moved.zip"
    archive.write_bytes(run_archive(transferred))
    tables = []
    for model in (transferred, archive):
        table = tmp_path / f"{model.name}.csv"
        done = run("predict", "--model", model, "--structures", waters, "--out", table)
        assert done.exit_code == 0
        tables.append(table.read_text())
    assert tables[0] == tables[1]
    page = tmp_path / "report.html"
    assert run("report", archive, "--out", page, "--title", "Waters").exit_code == 0
    text = page.read_text()
    assert "<h1>Waters</h1>" in text
    assert f"--structures {waters}" in text and "--method freeze" in text
    cited = run("cite", "--run", archive).stdout.splitlines()
    assert cited == run("cite", "--run", transferred).stdout.splitlines()
    assert all(line in html.unescape(text) for line in cited)
    assert cited[0].startswith("As a comparison in BTL-PCP: M. A. Abba")
    assert cited[-1].startswith("The labelled structures of this run.")
    assert "Materials Project" in run("cite", "--run", "pbe").stdout


def test_error_of_a_zipped_run_names_the_zip(
    run: Run, transferred: Path, waters: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "moved.zip"
    archive.write_bytes(run_archive(transferred))
    waters.unlink()
    failed = run("refit", archive, "--out", tmp_path / "all")
    assert failed.exit_code == 1
    assert f"which {archive} was made from, does not exist here" in failed.stderr
    assert "bandgap-run-" not in failed.stderr
