"""The server's folder for data: closed by default, and no way out of it."""

import uuid
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs import server_files
from bandgap.jobs.home import open_home
from bandgap.jobs.library import Library
from bandgap.jobs.server_files import data_folder, entries, files_of
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all

WS = str(uuid.uuid4())
WATER = b"3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files in a folder, a hidden file, and links that lead out."""
    offered = tmp_path / "offered"
    (offered / "set" / "deep").mkdir(parents=True)
    (offered / "set" / "a.xyz").write_bytes(WATER)
    (offered / "set" / "deep" / "b.xyz").write_bytes(WATER.replace(b"0.763", b"0.770"))
    (offered / ".hidden").write_bytes(WATER)
    (tmp_path / "secret.xyz").write_bytes(WATER)
    (offered / "link.xyz").symlink_to(tmp_path / "secret.xyz")
    (offered / "set" / "link.xyz").symlink_to(tmp_path / "secret.xyz")
    monkeypatch.setenv("BANDGAP_DATA_FOLDER", str(offered))
    return offered


def test_folder_is_closed_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BANDGAP_DATA_FOLDER", raising=False)
    assert entries() == []
    with pytest.raises(InputError, match="is not in the server's folder for data"):
        files_of("set")


def test_variable_that_names_no_folder_closes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert data_folder() == folder.resolve()
    for name in ("", str(folder / "none"), str(folder / "set" / "a.xyz")):
        monkeypatch.setenv("BANDGAP_DATA_FOLDER", name)
        assert data_folder() is None
        assert entries() == []


def test_home_of_the_user_may_be_written_short(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("BANDGAP_DATA_FOLDER", f"~/{folder.name}")
    assert data_folder() == folder.resolve()


def test_entry_that_is_a_file_is_that_file(folder: Path) -> None:
    (folder / "single.xyz").write_bytes(WATER)
    assert entries() == ["set", "single.xyz"]
    assert files_of("single.xyz") == [("single.xyz", folder / "single.xyz")]


def test_at_most_the_limit_of_entries_is_listed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "single.xyz").write_bytes(WATER)
    for limit, expected in ((2, ["set", "single.xyz"]), (1, ["set"])):
        monkeypatch.setattr(server_files, "MAX_ENTRIES", limit)
        assert entries() == expected


def test_entries_and_files_leave_out_what_is_hidden_or_a_link(folder: Path) -> None:
    assert entries() == ["set"]
    assert [name for name, _ in files_of("set")] == ["set/a.xyz", "set/deep/b.xyz"]


@pytest.mark.parametrize(
    "name",
    ["../secret.xyz", "set/../../secret.xyz", "/etc/passwd", "link.xyz", ".hidden", "..", ""],
)
def test_name_that_is_no_entry_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(InputError, match="Choose one of the names in the list"):
        files_of(name)


def test_entry_becomes_a_checked_data_set_that_no_longer_needs_the_folder(
    folder: Path, tmp_path: Path
) -> None:
    library = Library(open_home(tmp_path / "home"))
    jobs = JobStore(open_home(tmp_path / "home"))
    dataset = library.add_dataset(WS, "set", origin="folder")
    payload = {"dataset": dataset.id, "entry": "set"}
    job = jobs.submit(WS, "import_folder", title="Reading set", payload=payload, subject=dataset.id)
    work_all(library.home)
    ended = jobs.job(WS, job.id)
    assert ended is not None and ended.state == "finished"
    assert (ended.result["n"], ended.result["refused"]) == (2, 0)
    assert [v.file for v in library.verdicts(dataset.id)] == ["set/a.xyz", "set/deep/b.xyz"]
    assert library.home.read_upload(library.files(dataset.id)[0].content) == WATER


def test_entry_over_the_quota_is_refused_with_a_message(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BANDGAP_QUOTA_GB", "0.0000001")
    library = Library(open_home(tmp_path / "home"))
    jobs = JobStore(open_home(tmp_path / "home"))
    dataset = library.add_dataset(WS, "set", origin="folder")
    payload = {"dataset": dataset.id, "entry": "set"}
    job = jobs.submit(WS, "import_folder", title="Reading set", payload=payload, subject=dataset.id)
    work_all(library.home)
    ended = jobs.job(WS, job.id)
    assert ended is not None and ended.state == "failed" and "BANDGAP_QUOTA_GB" in ended.error
