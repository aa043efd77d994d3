"""`bandgap add-data`: files of this machine become a checked data set of a workspace."""

import uuid
from pathlib import Path

from bandgap.jobs.home import open_home
from bandgap.jobs.library import Library
from bandgap.jobs.worker import work_all
from tests.unit.cli.conftest import Run

WS = str(uuid.uuid4())
WATER = "3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


def test_add_data_takes_the_address_of_a_page_and_the_worker_checks(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "crystals"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.xyz").write_text(WATER)
    (folder / "deep" / "b.xyz").write_text("nothing")
    result = run("add-data", str(folder), "--workspace", f"http://127.0.0.1:8501/data?ws={WS}&data=x")
    assert "2 files stored as 'crystals'; open the page Data" in result.stderr
    assert f"The workspace {WS} is new in" in result.stderr
    library = Library(open_home())
    work_all(library.home)
    (dataset,) = library.datasets(WS)
    assert [(v.file, v.status) for v in library.verdicts(dataset.id)] == [
        ("crystals/a.xyz", "ready"),
        ("crystals/deep/b.xyz", "refused"),
    ]


def test_add_data_without_a_workspace_says_where_it_stands(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(WATER)
    result = run("add-data", str(tmp_path / "a.xyz"), "--workspace", "mine")
    assert result.exit_code == 2 and "Copy what stands after ws=" in result.stderr


def test_add_data_of_nothing_is_refused(run: Run, tmp_path: Path) -> None:
    result = run("add-data", str(tmp_path / "absent"), "--workspace", WS)
    assert result.exit_code == 1 and "there is no such file or folder" in result.stderr
