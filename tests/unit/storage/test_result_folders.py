"""Where a result may be written: never over another kind, over files of the user, in a result or
over an input.
"""

import json
from pathlib import Path

import pytest

from bandgap.foundation.errors import InputError
from bandgap.storage.result_folders import check_result_folder, check_table_folder


def stored(folder: Path, kind: str, *other_names: str) -> Path:
    """Make a folder that looks like a stored result, with other files."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"kind": kind}))
    for name in other_names:
        (folder / name).write_text("text")
    return folder


def test_new_empty_and_older_folders_of_the_same_kind_are_accepted(tmp_path: Path) -> None:
    check_result_folder(tmp_path / "new", kind="run")
    (tmp_path / "empty").mkdir()
    check_result_folder(tmp_path / "empty", kind="run")
    run = stored(tmp_path / "run", "run", "draws.safetensors", "predictions.csv", "calibrator.json")
    check_result_folder(run, kind="run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "run"]


def test_unfinished_run_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    check_result_folder(tmp_path / "run", kind="run")


@pytest.mark.parametrize(
    ("stored_kind", "new_kind", "words"),
    [
        ("source", "run", "contains a source model, which a run does not replace"),
        ("run", "source", "contains a run, which a source model does not replace"),
        (
            "sources",
            "source",
            "contains a source model of several sets, which a source model does not replace",
        ),
        ("album", "run", "contains a result of kind album, which a run does not replace"),
    ],
)
def test_other_kind_of_result_is_refused(
    stored_kind: str, new_kind: str, words: str, tmp_path: Path
) -> None:
    folder = stored(tmp_path / "out", stored_kind, "weights.safetensors")
    with pytest.raises(InputError, match=f"{words}. Give a new folder"):
        check_result_folder(folder, kind=new_kind)


@pytest.mark.parametrize(
    "name", ["thesis.txt", "manifest.json", "predictions.csv", "calibrator.json"]
)
def test_folder_of_the_user_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("{}")
    with pytest.raises(
        InputError, match=f"holds other files, such as {name}, .* Give a new folder"
    ):
        check_result_folder(tmp_path / "mine", kind="run")


def test_run_with_a_file_of_the_user_is_refused_as_all_of_it_would_be_replaced(
    tmp_path: Path,
) -> None:
    run = stored(tmp_path / "run", "run", "draws.safetensors", "notes.txt")
    with pytest.raises(
        InputError, match=r"holds other files, such as notes.txt, .* or move these files"
    ):
        check_result_folder(run, kind="run")


def test_folder_inside_a_result_is_refused(tmp_path: Path) -> None:
    source = stored(tmp_path / "source", "source")
    with pytest.raises(
        InputError, match="the folder of a source model. Give a folder outside of it"
    ):
        check_result_folder(source / "run" / "first", kind="run")


@pytest.mark.parametrize("link", [False, True], ids=["itself", "through a link"])
def test_source_that_is_read_is_refused(link: bool, tmp_path: Path) -> None:
    source = stored(tmp_path / "source", "source")
    out = source
    if link:
        out = tmp_path / "link"
        out.symlink_to(source)
    with pytest.raises(InputError, match="which this command reads, and would be replaced"):
        check_result_folder(out, kind="source", inputs=[None, source])


def test_folder_that_contains_an_input_is_refused(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", "run", "draws.safetensors")
    with pytest.raises(
        InputError, match="is, or contains, .*predictions.csv, which this command reads"
    ):
        check_result_folder(run, kind="run", inputs=[run / "predictions.csv"])


def test_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match="is the current folder, or contains it. Give the name of a folder in it"
    ):
        check_result_folder(Path(), kind="run")


def test_comparison_is_refused_in_a_result_and_in_a_folder_of_the_user(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", "run")
    for folder in (run, run / "compared"):
        with pytest.raises(InputError, match="Give a"):
            check_table_folder(folder, "fits.jsonl")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("text")
    with pytest.raises(InputError, match=r"holds other files. .* or one with a fits.jsonl"):
        check_table_folder(tmp_path / "mine", "fits.jsonl")
    (tmp_path / "mine" / "fits.jsonl").touch()
    check_table_folder(tmp_path / "mine", "fits.jsonl")
