"""Manifests are plain JSON, written whole, and refused with what is wrong."""

import importlib.metadata
import json

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.storage.manifests import read_manifest, versions, write_manifest
from bandgap.storage.references import check_references

RUN = {"kind": "run", "schema": 1}


def test_manifest_round_trips_with_plain_values(tmp_path):
    write_manifest(
        tmp_path, RUN | {"a": np.float32(0.5), "b": np.int64(3), "c": (1, [2.0]), "d": {"e": None}}
    )
    manifest = read_manifest(tmp_path, kind="run")
    assert manifest == RUN | {"a": 0.5, "b": 3, "c": [1, [2.0]], "d": {"e": None}}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("-inf")])
def test_numbers_that_are_not_finite_become_null(tmp_path, value):
    write_manifest(tmp_path, RUN | {"a": [value]})
    assert read_manifest(tmp_path, kind="run")["a"] == [None]


def test_manifest_that_cannot_be_written_leaves_the_old_one(tmp_path):
    write_manifest(tmp_path, RUN)
    with pytest.raises(TypeError):
        write_manifest(tmp_path, RUN | {"a": object()})
    assert read_manifest(tmp_path, kind="run") == RUN


def test_folder_without_manifest_is_refused(tmp_path):
    with pytest.raises(
        ArtifactError,
        match=r"has no manifest.json. Give the folder that train-source or transfer wrote",
    ):
        read_manifest(tmp_path, kind="run")


def test_missing_folder_and_file_in_its_place_are_named_as_such(tmp_path):
    with pytest.raises(ArtifactError, match=r"absent: there is no such folder. Give the folder"):
        read_manifest(tmp_path / "absent", kind="run")
    (tmp_path / "run.zip").write_bytes(b"PK")
    with pytest.raises(ArtifactError, match=r"run.zip is a file, and a folder is expected"):
        read_manifest(tmp_path / "run.zip", kind="run")


@pytest.mark.parametrize("text", ["{", "", "\x00\x01"])
def test_manifest_that_is_no_json_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(
        ArtifactError,
        match=r"manifest.json: not readable as JSON .* The folder is damaged; make it again",
    ):
        read_manifest(tmp_path, kind="run")


@pytest.mark.parametrize(
    "manifest, message",
    [
        ({"kind": "source", "schema": 1}, "a source of schema 1"),
        ({"kind": "run", "schema": 9}, "a run of schema 9"),
    ],
)
def test_manifest_of_another_kind_or_schema_is_refused(tmp_path, manifest, message):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match=f"is {message}; a run of schema 1 is expected here"):
        read_manifest(tmp_path, kind="run")


@pytest.mark.parametrize("installed", [True, False])
def test_versions_hold_extras_where_they_are_installed_and_say_nothing_where_not(
    installed, monkeypatch, caplog
):
    of = importlib.metadata.version

    def version(name):
        if name != "chgnet":
            return of(name)
        if installed:
            return "0.4.2"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert versions().get("chgnet") == ("0.4.2" if installed else None)
    assert "torch" in versions() and "chgnet" not in caplog.text


def test_manifest_that_is_too_large_is_not_parsed(tmp_path):
    write_manifest(tmp_path, RUN)
    with (tmp_path / "manifest.json").open("a") as file:
        file.write(" " * 20_000_000)
    with pytest.raises(ArtifactError, match="more than 20 MB"):
        read_manifest(tmp_path, kind="run")


@pytest.mark.parametrize("n", [0, 6])
def test_model_without_a_self_check_is_refused(tmp_path, n):
    with pytest.raises(ArtifactError, match=f"{n} reference structures.*self-check"):
        check_references(tmp_path, {"references": [{}] * n}, lambda records: np.zeros(len(records)))
