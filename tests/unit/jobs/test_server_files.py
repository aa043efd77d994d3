"""Only plain files of one folder are offered and opened."""

import os
import sys

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs import server_files
from bandgap.jobs.server_files import VARIABLE, allowed_folder, checked_file, offered_files


@pytest.fixture
def folder(tmp_path):
    """A folder with a file, with entries that must not be opened, and a secret outside."""
    inside = tmp_path / "offered"
    inside.mkdir()
    (tmp_path / "secret.json").write_text("{}")
    (inside / "df_5k.json").write_text("{}")
    (inside / "notes.txt").write_text("x")
    (inside / "sub.json").mkdir()
    (inside / "out.json").symlink_to(tmp_path / "secret.json")
    (inside / "same.json.gz").symlink_to(inside / "df_5k.json")
    return inside


def test_only_plain_files_are_offered(folder):
    assert [(f.name, f.n_bytes) for f in offered_files(folder)] == [
        ("df_5k.json", 2),
        ("same.json.gz", 2),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json",
        "/etc/passwd.json",
        "..\\secret.json",
        "a\0.json",
        "",
        "..",
        "out.json",
        "sub.json",
        "notes.txt",
        "none.json",
    ],
)
def test_other_names_are_refused(folder, name):
    with pytest.raises(InputError, match="is none of the files that this server offers"):
        checked_file(folder, name)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are of POSIX")
def test_pipe_is_refused_without_being_opened(folder):
    os.mkfifo(folder / "pipe.json")
    with pytest.raises(InputError, match="is none of the files"):
        checked_file(folder, "pipe.json")


def test_at_most_the_limit_of_files_is_listed(folder, monkeypatch):
    monkeypatch.setattr(server_files, "MAX_LISTED", 1)
    assert [file.name for file in offered_files(folder)] == ["df_5k.json"]


def test_file_over_the_limit_is_not_offered(folder, monkeypatch):
    monkeypatch.setattr(server_files, "MAX_FILE_BYTES", 1)
    with pytest.raises(InputError, match="Choose one from the list, or use `bandgap train-source"):
        checked_file(folder, "df_5k.json")


def test_no_folder_is_offered_unless_it_is_named(tmp_path, monkeypatch):
    assert allowed_folder() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InputError, match=f"{VARIABLE} names .* which is no folder here"):
        allowed_folder()
