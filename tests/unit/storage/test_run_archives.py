"""A run as a zip: what is in it, and what is refused."""

import io
import json
import random
import zipfile

import pytest

from bandgap.foundation.errors import InputError
from bandgap.storage.run_archives import RUN_ARCHIVES, opened_run, run_archive


@pytest.fixture
def run(tmp_path):
    """A folder with the files of a run, a prediction and a checkpoint."""
    folder = tmp_path / "run"
    (folder / "checkpoint").mkdir(parents=True)
    (folder / "predictions" / "1").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"kind": "run"}))
    (folder / "draws.safetensors").write_bytes(b"draws")
    (folder / "calibrator.json").write_text("{}")
    (folder / "learning_curve.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    (folder / "checkpoint" / "chains-1.safetensors").write_bytes(b"chains")
    (folder / "predictions" / "1" / "predictions.csv").write_text("id")
    return folder


def test_archive_has_the_files_of_the_run_in_one_folder(run):
    with zipfile.ZipFile(io.BytesIO(run_archive(run, name="mine"))) as archive:
        assert sorted(archive.namelist()) == [
            "mine/calibrator.json",
            "mine/draws.safetensors",
            "mine/learning_curve.json",
            "mine/manifest.json",
        ]


def test_opened_archive_has_the_files_and_is_removed_at_the_end(run, tmp_path):
    file = tmp_path / "moved.zip"
    file.write_bytes(run_archive(run))
    with opened_run(file) as folder:
        assert folder.name == "moved"
        assert (folder / "draws.safetensors").read_bytes() == b"draws"
    assert not folder.exists()
    with opened_run(run) as folder:
        assert folder == run
    assert run.is_dir()


def test_zip_made_by_hand_of_a_folder_in_folders_is_a_run(tmp_path):
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("home/me/run/manifest.json", json.dumps({"kind": "run"}))
        archive.writestr("home/me/run/draws.safetensors", b"draws")
        archive.writestr("home/me/other.safetensors", b"other")
    with opened_run(file) as folder:
        names = sorted(path.name for path in folder.iterdir())
    assert names == ["draws.safetensors", "manifest.json"]


def test_files_outside_of_the_folder_are_not_written(tmp_path):
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("run/manifest.json", json.dumps({"kind": "run"}))
        archive.writestr("run/../../evil.safetensors", b"evil")
        archive.writestr("/evil.safetensors", b"evil")
    target = tmp_path / "in" / "here"
    target.mkdir(parents=True)
    RUN_ARCHIVES.unpack(file, target, name="a.zip")
    assert [path.name for path in target.iterdir()] == ["manifest.json"]
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a.txt": "text"}, "contains no readable manifest.json, not a run"),
        ({"s/manifest.json": '{"kind": "source"}'}, "contains a source, not a run"),
        (None, "not a zip archive that can be unpacked"),
    ],
    ids=["no manifest", "source model", "no zip"],
)
def test_other_archives_are_refused_with_what_is_accepted(tmp_path, content, message):
    file = tmp_path / "a.zip"
    file.write_bytes(b"text")
    if content is not None:
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
    accepted = "Accepted: the zip of a run"
    with pytest.raises(InputError, match=f"a.zip: .*{message}.*{accepted}"), opened_run(file):
        pass


def test_folder_of_a_source_is_not_packed_as_a_run(tmp_path):
    (tmp_path / "manifest.json").write_text('{"kind": "source"}')
    with pytest.raises(InputError, match="is the folder of a source, not of a run"):
        run_archive(tmp_path)


def test_archive_with_a_damaged_compressed_file_is_refused(tmp_path):
    file = tmp_path / "a.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run/manifest.json", json.dumps({"kind": "run", "n": list(range(99))}))
        place = archive.getinfo("run/manifest.json").header_offset
    data = bytearray(file.read_bytes())
    start = place + 30 + len("run/manifest.json")
    data[start : start + 8] = b"\xff" * 8
    file.write_bytes(data)
    with pytest.raises(InputError, match="a.zip: not a zip archive that can be"), opened_run(file):
        pass


def packed_files(path, **contents):
    """Write a compressed zip archive of a folder with these files."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(f"run/{name.replace('__', '.')}", data)
    return path


@pytest.mark.parametrize("name", ["manifest__json", "draws__safetensors"])
def test_archive_that_is_packed_like_a_bomb_is_not_unpacked(tmp_path, name):
    files = {"manifest__json": '{"kind": "run"}', name: b'{"kind": "run"}' + b" " * 3_000_000}
    file = packed_files(tmp_path / "a.zip", **files)
    with pytest.raises(InputError, match="compressed more than 200 to 1"), opened_run(file):
        pass


def test_large_archive_that_is_packed_as_usual_is_unpacked(tmp_path):
    data = bytes(range(256)) * 10_000 + random.Random(0).randbytes(200_000)
    files = {"manifest__json": '{"kind": "run"}', "draws__safetensors": data}
    file = packed_files(tmp_path / "a.zip", **files)
    assert len(data) > 10 * file.stat().st_size
    with opened_run(file) as folder:
        assert (folder / "draws.safetensors").read_bytes() == data
