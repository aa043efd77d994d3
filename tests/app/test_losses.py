"""Problems of disk or store: the page names them, stored data remain, and a retry works."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, empty_workspace, texts
from tests.app.test_actions import click, upload

Visit = Callable[..., AppTest]

DISK_BYTES = 3_000_000
LABELLED = "**60 structures**: 60 ready; 60 have a gap and can be learned from."
MANY = [("many.extxyz", 20_000 * WATER, "")]


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace with a labelled data set on a separate disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk is mounted by administrators only")
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    try:
        example = empty_workspace(folder)
        example.add_labelled()
        yield example
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_upload_on_a_full_disk_shows_an_error_and_works_with_free_space(
    small_disk: Workspace,
) -> None:
    at = opened_data(small_disk)
    upload(at, "Structure files", [("big.cif", b"#" * (DISK_BYTES - 100_000), "")])
    click(at, "Check the files")
    assert "are kept free. Free some disk space" in texts(at)
    assert not list((small_disk.home.folder / "uploads").glob("*.part"))
    assert LABELLED in texts(opened_data(small_disk))
    upload(at, "Structure files", [("water.xyz", WATER, "")])
    click(at, "Check the files")
    work_all(small_disk.home)
    assert "**1 structure**: 1 ready" in texts(at.run())


@pytest.mark.slow
def test_job_that_fills_the_disk_fails_with_a_message_and_works_with_free_space(
    small_disk: Workspace,
) -> None:
    at = opened_data(small_disk)
    upload(at, "Structure files", MANY)
    click(at, "Check the files")
    work_all(small_disk.home)
    failed = small_disk.jobs.jobs(small_disk.id)[0]
    assert failed.state == "failed" and "Traceback" not in failed.error
    assert "ree some disk space" in failed.error and "bandgap does not know" not in failed.error
    assert "ree some disk space" in texts(at.run())
    assert LABELLED in texts(opened_data(small_disk))
    grown = ["mount", "-o", f"remount,size={20 * DISK_BYTES}", str(small_disk.home.folder)]
    subprocess.run(grown, check=True)
    click(at, "Check the files again")
    work_all(small_disk.home)
    # all are copies of the first one
    assert "**20,000 structures**: 1 ready, 19,999 usable" in texts(at.run())


def opened_data(workspace: Workspace) -> AppTest:
    """Return the page Data of a workspace, on its first data set, with the form for another one."""
    from tests.app.conftest import MAIN

    at = AppTest.from_file(str(MAIN), default_timeout=60)
    at.query_params["ws"] = workspace.id
    at.query_params["data"] = workspace.library.datasets(workspace.id)[-1].id
    at.run()
    return at.switch_page("views/data.py").run()


def test_locked_store_shows_an_error_and_the_next_press_works(
    visit: Visit, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.jobs.database.BUSY_S", 0.2)
    at = visit("data")
    other = sqlite3.connect(workspace.jobs.database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    click(at, "Use the demo data")
    assert not at.exception
    assert "Another process has locked it; wait a few seconds and try again." in texts(at)
    other.execute("ROLLBACK")
    other.close()
    click(at, "Use the demo data")
    assert [job.kind for job in workspace.jobs.jobs(workspace.id)] == ["import_demo"]


@pytest.mark.parametrize("page", ["home", "data", "train", "result"])
def test_damaged_store_shows_what_is_safe(visit: Visit, workspace: Workspace, page: str) -> None:
    workspace.add_labelled()
    at = visit(page)
    database = workspace.jobs.database.path
    for companion in database.parent.glob(f"{database.name}-*"):
        companion.unlink()
    database.write_bytes(b"no database" * 1_000)
    at.run()
    assert not at.exception
    assert "is damaged" in texts(at) and "The runs next to it are safe." in texts(at)
    assert Home(workspace.home.folder).folder.is_dir()
