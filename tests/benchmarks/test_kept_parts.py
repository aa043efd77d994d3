"""Stored parts of a benchmark and stored source models are reused by the next call."""

import json

import pytest

from bandgap.foundation.errors import InputError
from benchmarks.kept_parts import Parts, kept_source

NO_VERSION = '{"part": "split", "settings": {}, "figures": {"s": 1.0}}'


def test_parts_with_the_same_name_and_settings_are_measured_once(tmp_path):
    file = tmp_path / "new folder" / "parts.jsonl"
    measured = []

    def measure():
        measured.append(1)
        return {"s": 0.1 + 0.2, "by_size": {"1000": [1.5, 2.5]}}

    settings = {"n": 8, "sizes": (1, 2)}
    first = Parts(file).get("split", settings, measure)
    parts = Parts(file)
    assert (
        parts.get("split", {"sizes": (1, 2), "n": 8}, measure) == first
        and parts.n_resumed == len(measured) == 1
    )
    parts.get("split", settings | {"n": 9}, measure)
    parts.get("other", settings, measure)
    assert parts.n_resumed == 1 and len(measured) == 3 and len(file.read_text().splitlines()) == 3


def test_failed_part_is_not_stored_and_without_a_file_nothing_is(tmp_path):
    def fail():
        raise RuntimeError("killed")

    parts = Parts(tmp_path / "parts.jsonl")
    with pytest.raises(RuntimeError):
        parts.get("split", {}, fail)
    assert parts.get("split", {}, lambda: {"s": 1.0}) == {"s": 1.0}
    for _ in range(2):
        assert Parts().get("split", {}, lambda: {"s": 2.0}) == {"s": 2.0}


@pytest.mark.parametrize("line", ["half a li", '{"part": "split"}', "[1]", NO_VERSION])
def test_file_with_other_content_is_refused_with_its_line(tmp_path, line):
    (tmp_path / "parts.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"parts.jsonl, line 1: no part of a measurement"):
        Parts(tmp_path / "parts.jsonl")


def test_parts_of_another_version_are_measured_again_and_the_log_says_so(tmp_path, caplog):
    file = tmp_path / "parts.jsonl"
    Parts(file).get("split", {}, lambda: {"s": 1.0})
    line = json.loads(file.read_text())
    file.write_text(json.dumps(line | {"version": "0.0.1"}) + "\n")
    assert Parts(file).get("split", {}, lambda: {"s": 2.0}) == {"s": 2.0}
    assert "1 parts are of another version of bandgap and are not reused" in caplog.text
    assert Parts(file).get("split", {}, lambda: {"s": 3.0}) == {"s": 2.0}


def test_source_is_trained_again_if_its_inputs_change(tmp_path, caplog):
    folder = tmp_path / "source"
    trained = []

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
    assert "data, settings or version of bandgap differ; the source is trained again" in caplog.text
