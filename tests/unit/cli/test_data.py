"""`bandgap add-data`, `add-source`, `add-run`: add data, a source model or a run to a workspace."""

import uuid
from pathlib import Path

import pytest

from bandgap.jobs.home import open_home
from bandgap.jobs.library import Library
from bandgap.jobs.sources import sources_of
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from bandgap.jobs.workspaces import open_workspace
from bandgap.storage.run_archives import run_archive
from tests.unit.cli.conftest import Run

WS = str(uuid.uuid4())
WATER = "3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


def test_add_data_takes_the_address_of_a_page_and_the_worker_checks(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "crystals"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.xyz").write_text(WATER)
    (folder / "deep" / "b.xyz").write_text("nothing")
    result = run(
        "add-data", str(folder), "--workspace", f"http://127.0.0.1:8501/data?ws={WS}&data=x"
    )
    assert "2 files stored as 'crystals'; open the page Data" in result.stderr
    assert f"The workspace {WS} is new in" in result.stderr
    library = Library(open_home())
    work_all(library.home)
    (dataset,) = library.datasets(WS)
    assert [(v.file, v.status) for v in library.verdicts(dataset.id)] == [
        ("crystals/a.xyz", "ready"),
        ("crystals/deep/b.xyz", "refused"),
    ]


def test_add_data_does_not_call_a_workspace_new_that_was_opened(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(WATER)
    open_workspace(Library(open_home()), WS)
    result = run("add-data", str(tmp_path / "a.xyz"), "--workspace", WS)
    assert "stored as" in result.stderr and "is new in" not in result.stderr


def test_add_data_without_a_workspace_says_where_to_find_its_address(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a.xyz").write_text(WATER)
    result = run("add-data", str(tmp_path / "a.xyz"), "--workspace", "mine")
    assert result.exit_code == 2 and "Copy the text after ws=" in result.stderr


def test_add_source_puts_a_trained_source_where_the_pages_list_it(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    source = tmp_path / "shell-trained"
    options = ("--structures", waters, "--label", "gap_eV", "--unit", "eV", "--species", "H,O")
    result = run("train-source", *options, "--out", source)
    assert result.exit_code == 0, result.output
    result = run(
        *(f"add-source {source} --workspace http://127.0.0.1:8501/sources?ws={WS} --name").split(),
        "my waters",
    )
    assert "The source model 'my waters' is stored; open the page Source models" in result.stderr
    home = open_home()
    work_all(home)
    (added,) = [s for s in sources_of(JobStore(home), Library(home), WS).values() if s.job]
    assert (added.title, added.trained, added.card["n_structures"]) == (
        "my waters",
        "elsewhere",
        8,
    )
    result = run("add-source", source, "--workspace", WS)
    assert "The source model 'my waters' is there already" in result.stderr


def test_add_run_takes_a_zip_or_a_folder_and_refuses_what_is_no_run(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    data = ("--structures", waters, "--label", "gap_eV", "--unit", "eV", "--source", "none")
    sizes = ("--n", "6", "--n-test", "2", "--method", "gaussian_process")
    result = run("transfer", *data, *sizes, "--out", folder)
    assert result.exit_code == 0, result.output
    file = tmp_path / "run of waters.zip"
    file.write_bytes(run_archive(folder))
    result = run("add-run", file, "--workspace", WS)
    assert "The run 'run of waters' is stored; open the page Result" in result.stderr
    home = open_home()
    work_all(home)
    (row,) = Library(home).runs(WS)
    assert (row.title, row.method, row.request.n) == ("run of waters", "gaussian_process", 6)
    assert "is there already" in run("add-run", file, "--workspace", WS).stderr
    result = run("add-run", waters.parent, "--workspace", WS)
    assert result.exit_code == 1 and "has no manifest.json" in result.stderr


def test_add_data_with_labels_gives_the_structures_the_gaps_of_the_table(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "crystals"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.xyz").write_text(WATER)
    table = tmp_path / "gaps.csv"
    table.write_text("file,gap,gap_pbe_eV\na.xyz,7100,6.5\nc.xyz,7200,6.6\n")
    command = ("add-data", str(folder), "--workspace", WS, "--labels", str(table))
    result = run(*command, "--column", "gap")
    assert result.exit_code == 1 and "the header 'gap' states no unit" in result.stderr
    assert Library(open_home()).datasets(WS) == []
    run(*command, "--column", "gap", "--unit", "meV", "--level-of-theory", "PBE0")
    library = Library(open_home())
    work_all(library.home)
    (dataset,) = library.datasets(WS)
    assert dataset.level_of_theory == "PBE0"
    assert dataset.labels["unmatched_labels"] == ["c.xyz"]
    assert dataset.labels["unmatched_gaps_eV"] == pytest.approx([7.2])
    first, second = library.verdicts(dataset.id)
    assert first.gap_eV == pytest.approx(7.1)  # converted from meV
    assert first.info["gap_pbe_eV"] == 6.5
    assert second.gap_eV is None
