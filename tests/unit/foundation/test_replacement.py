"""A folder is replaced completely: after errors, kills, and without an exchange of folders."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.foundation.replacement import (
    check_writable,
    recover,
    recover_all,
    replaced_folder,
    write_whole,
)

KILLED = """
import os, signal, sys
from pathlib import Path
from bandgap.foundation.replacement import replaced_folder
with replaced_folder(Path(sys.argv[1])) as new:
    (new / "half.txt").write_text("half of the new result")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "calibrator.json").write_text("old")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_new(folder: Path) -> None:
    with replaced_folder(folder) as new:
        (new / "draws").write_text("new")


def killed_while_writing(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL


def test_new_folder_replaces_all_of_the_old_one(old: Path) -> None:
    write_new(old)
    assert names(old) == ["draws"]
    assert names(old.parent) == ["run"]


def test_copy_keeps_files_that_are_not_written(old: Path) -> None:
    with replaced_folder(old, copy=True) as new:
        (new / "draws").write_text("new")
    assert names(old) == ["calibrator.json", "draws"]


def test_link_to_a_folder_stays_a_link(old: Path) -> None:
    link = old.parent / "link"
    link.symlink_to(old)
    write_new(link)
    assert link.is_symlink()
    assert names(old) == ["draws"]


def test_error_while_writing_does_not_change_the_old_folder(old: Path) -> None:
    with pytest.raises(ZeroDivisionError), replaced_folder(old) as new:
        (new / "draws").write_text("new")
        _ = 1 / 0
    assert names(old) == ["calibrator.json"]
    assert names(old.parent) == ["run"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_killed_write_does_not_change_the_old_folder_and_is_cleaned_up(old: Path) -> None:
    killed_while_writing(old)
    assert names(old) == ["calibrator.json"]
    (abandoned,) = [name for name in names(old.parent) if name != "run"]
    assert abandoned.startswith(".run.") and abandoned.endswith(".new")
    write_new(old)
    assert names(old.parent) == ["run"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_folder_of_another_running_write_is_not_removed(old: Path) -> None:
    with replaced_folder(old) as new:
        (new / "draws").write_text("new")
        recover(old)
        recover_all(old.parent)
        assert names(new) == ["draws"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_abandoned_folder_of_a_similar_name_is_not_removed(old: Path) -> None:
    killed_while_writing(old.parent / "run.2")
    write_new(old)
    assert len(names(old.parent)) == 2
    recover_all(old.parent)
    assert names(old.parent) == ["run"]


def test_system_without_exchange_uses_two_renames(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_library(*args: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    write_new(old)
    assert names(old) == ["draws"]
    assert names(old.parent) == ["run"]


def test_old_folder_that_was_moved_is_restored(old: Path) -> None:
    """A process that is killed between two renames leaves it."""
    old.rename(old.with_name(".run.0123abcd.old"))
    recover(old)
    assert names(old) == ["calibrator.json"]


def test_failed_swap_keeps_the_new_result_and_names_it(tmp_path: Path) -> None:
    """A file appears in the place of the folder while the result is written."""
    with (
        pytest.raises(ArtifactError, match="the new result is complete in") as error,
        replaced_folder(tmp_path / "run") as new,
    ):
        (new / "draws").write_text("new")
        (tmp_path / "run").write_text("a file")
    (result,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert names(result) == ["draws"]
    assert result.name in str(error.value)
    assert not result.name.startswith(".")


def test_path_that_cannot_be_written_is_refused_and_the_check_leaves_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    for path in (file, tmp_path, tmp_path / "new" / "deeper", Path(os.devnull)):
        check_writable(path)
    with pytest.raises(
        InputError, match="below cannot be written .* Give a place where files can be written"
    ):
        check_writable(file / "below")
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(tmp_path / ("long" * 100))
    assert names(tmp_path) == ["file"]
    assert file.read_text() == "text"


def test_file_gets_its_name_after_the_disk_has_stored_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "manifest.json"
    stored = []

    def fsync(descriptor: int) -> None:
        stored.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size, file.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(file, "{}")
    assert stored == [(file.stat().st_ino, 2, False)]
