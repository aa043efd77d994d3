"""Parts of a measurement that was killed are there for the next run, with their settings."""

import json

import pytest

from bandgap.foundation.errors import InputError
from benchmarks.kept_parts import Parts, file_digest, kept_source


def test_parts_with_the_same_name_and_settings_are_measured_once(tmp_path):
    file, measured = tmp_path / "new folder" / "parts.jsonl", []

    def measure():
        measured.append(1)
        return {"s": 0.1 + 0.2, "by_size": {"1000": [1.5, 2.5]}}

    about = {"n": 8, "sizes": (1, 2)}
    first = Parts(file).get("split", about, measure)
    parts = Parts(file)
    assert (
        parts.get("split", {"sizes": (1, 2), "n": 8}, measure) == first
        and parts.n_resumed == len(measured) == 1
    )
    parts.get("split", about | {"n": 9}, measure)
    parts.get("other", about, measure)
    assert parts.n_resumed == 1 and len(measured) == 3 and len(file.read_text().splitlines()) == 3


def test_what_fails_is_not_kept_and_without_a_file_nothing_is(tmp_path):
    def fail():
        raise RuntimeError("killed")

    parts = Parts(tmp_path / "parts.jsonl")
    with pytest.raises(RuntimeError):
        parts.get("split", {}, fail)
    assert parts.get("split", {}, lambda: {"s": 1.0}) == {"s": 1.0}
    for _ in range(2):
        assert Parts().get("split", {}, lambda: {"s": 2.0}) == {"s": 2.0}


@pytest.mark.parametrize("line", ["half a li", '{"part": "split"}', "[1]"])
def test_file_of_anything_else_is_refused_with_its_line(tmp_path, line):
    (tmp_path / "parts.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"parts.jsonl, line 1: no part of a measurement"):
        Parts(tmp_path / "parts.jsonl")


def test_other_contents_have_another_digest(tmp_path):
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    a, b, c = (file_digest(tmp_path / name) for name in "abc")
    assert a == b != c and len(a) == 64
    assert file_digest(tmp_path / "none") == ""


@pytest.mark.parametrize(
    "change", [lambda line: line.update(version="0.0.1"), lambda line: line.pop("version")]
)
def test_parts_of_another_version_are_measured_again_and_the_log_says_so(tmp_path, caplog, change):
    file = tmp_path / "parts.jsonl"
    Parts(file).get("split", {}, lambda: {"s": 1.0})
    line = json.loads(file.read_text())
    change(line)
    file.write_text(json.dumps(line) + "\n")
    assert Parts(file).get("split", {}, lambda: {"s": 2.0}) == {"s": 2.0}
    assert "parts of another version of bandgap, measured again where asked for: 1" in caplog.text
    assert Parts(file).get("split", {}, lambda: {"s": 3.0}) == {"s": 2.0}


def test_source_is_trained_again_where_it_was_made_of_something_else(tmp_path, caplog):
    folder, trained = tmp_path / "source", []

    def train():
        trained.append(1)
        folder.mkdir(exist_ok=True)
        (folder / "manifest.json").write_text('{"kind": "source"}')
        return folder

    for _ in range(2):
        assert kept_source(folder, {"data": ["a"], "hidden": (4,)}, train) == folder
    assert len(trained) == 1 and not caplog.records
    kept_source(folder, {"data": ["b"], "hidden": (4,)}, train)
    assert len(trained) == 2
    assert (
        "made of other data, with other settings or by another version, and trained again"
        in caplog.text
    )
    (tmp_path / "source-made-of.json").unlink()  # as of an earlier version
    kept_source(folder, {"data": ["b"], "hidden": (4,)}, train)
    assert len(trained) == 3
