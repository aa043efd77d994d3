"""Stored models are loaded as they were; altered or damaged folders are refused."""

import ast
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import bandgap
from bandgap.descriptors import featurize
from bandgap.foundation.errors import ArtifactError
from bandgap.runs.stored import load_run
from bandgap.sources.stored import load_source, source_fingerprint, source_predictions_eV
from tests.storing import edit_manifest
from tests.transfers import transfer_labelled

METHOD = {"method": "fine_tune", "settings": {"training": {"max_epochs": 5}}, "device": "cpu"}


@pytest.fixture
def source_copy(source_folder, tmp_path):
    """A copy of the source model that a test may damage."""
    return Path(shutil.copytree(source_folder, tmp_path / "source"))


@pytest.fixture(scope="module")
def run_folder(source_folder, world, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    return transfer_labelled(
        source_folder, world.records, world.gaps_eV, out=out, n=12, n_test=6, **METHOD
    )


@pytest.fixture
def run_copy(run_folder, tmp_path):
    return Path(shutil.copytree(run_folder, tmp_path / "run"))


def edit_tensors(path, change):
    arrays = load_file(path)
    change(arrays)
    save_file(arrays, path)


def test_source_is_loaded_as_it_was_stored(source_folder, world):
    first = load_source(source_folder)
    second = load_source(str(source_folder), verify=False)
    assert first.descriptor == world.descriptor
    assert first.config == world.source_config
    assert first.card.elements == ("C", "H", "O")
    assert first.card.level_of_theory == "made up"
    assert first.history and first.history == second.history
    x = featurize(world.records, first.descriptor).features
    assert (source_predictions_eV(first, x) == source_predictions_eV(second, x)).all()
    assert source_fingerprint(first) == source_fingerprint(second)


def test_source_predicts_in_electron_volts(source_folder, world):
    source = load_source(source_folder)
    predicted = source_predictions_eV(source, featurize(world.records, source.descriptor).features)
    assert np.sqrt(np.mean((predicted - 0.5 - world.gaps_eV) ** 2)) < world.gaps_eV.std()


def test_manifest_contains_five_references_with_predictions(source_folder):
    references = json.loads((source_folder / "manifest.json").read_text())["references"]
    assert len(references) == 5
    assert set(references[0]) == {"id", "numbers", "positions", "cell", "pbc", "mean_eV"}


@pytest.mark.parametrize("kind", ["source", "run"])
def test_altered_reference_prediction_fails_the_self_check(kind, source_copy, run_copy):
    folder, load = {"source": (source_copy, load_source), "run": (run_copy, load_run)}[kind]
    stored = json.loads((folder / "manifest.json").read_text())["references"][2]

    def alter(manifest):
        manifest["references"][2]["mean_eV"] += 0.5

    edit_manifest(folder, alter)
    expected = (
        rf"the stored model fails its self-check: structure {stored['id']} gives "
        rf"{stored['mean_eV']:.3f} eV, {stored['mean_eV'] + 0.5:.3f} eV when it was stored. "
        "Changed since then: no version. Its files were altered"
    )
    with pytest.raises(ArtifactError, match=expected):
        load(folder)
    load(folder, verify=False)


def test_altered_weights_fail_the_self_check(source_copy):
    def alter(arrays):
        arrays["param.bias.3"] += 0.3

    edit_tensors(source_copy / "weights.safetensors", alter)
    with pytest.raises(ArtifactError, match=r"fails its self-check: structure source-\d\d gives"):
        load_source(source_copy)


def test_altered_draws_fail_the_self_check(run_copy):
    def alter(arrays):
        arrays["upper.1"] += 0.3

    edit_tensors(run_copy / "draws.safetensors", alter)
    with pytest.raises(ArtifactError, match=r"fails its self-check: structure target-\d\d gives"):
        load_run(run_copy)


def test_weights_that_are_not_finite_fail_the_self_check(source_copy):
    def alter(arrays):
        arrays["param.bias.3"] *= torch.nan

    edit_tensors(source_copy / "weights.safetensors", alter)
    with pytest.raises(
        ArtifactError, match=r"fails its self-check: structure source-\d\d gives nan eV"
    ):
        load_source(source_copy)


def test_failed_self_check_names_the_versions_that_changed(source_copy):
    def alter(manifest):
        manifest["references"][0]["mean_eV"] += 1
        manifest["versions"]["dscribe"] = "1.0"

    edit_manifest(source_copy, alter)
    with pytest.raises(
        ArtifactError,
        match=r"Changed since then: dscribe 1.0 -> \S+. Install those versions, or train",
    ):
        load_source(source_copy)


def test_change_of_the_descriptor_fails_the_self_check(source_copy):
    def alter(manifest):
        manifest["descriptor"]["k2"]["sigma"] = 0.2

    edit_manifest(source_copy, alter)
    with pytest.raises(ArtifactError, match="fails its self-check"):
        load_source(source_copy)


@pytest.mark.parametrize("content", [None, b"", b"not a tensor file", pickle.dumps({"a": 1})])
def test_missing_or_damaged_weights_are_refused(source_copy, content):
    name = "weights.safetensors"
    (source_copy / name).unlink()
    if content is not None:
        (source_copy / name).write_bytes(content)
    with pytest.raises(
        ArtifactError, match=rf"{name} cannot be read .* The folder is damaged; make it again"
    ):
        load_source(source_copy)


@pytest.mark.parametrize("name", ["draws.safetensors", "domain.safetensors"])
def test_missing_or_truncated_draws_are_refused(run_copy, name):
    path = run_copy / name
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match=rf"{name} cannot be read"):
        load_run(run_copy)
    path.unlink()
    with pytest.raises(ArtifactError, match=rf"{name} cannot be read"):
        load_run(run_copy)


@pytest.mark.parametrize("part", ["weight.1", "bias.2"])
def test_tensor_of_another_shape_is_refused_by_name(source_copy, part):
    def alter(arrays):
        arrays[f"param.{part}"] = torch.zeros(2, 3)

    edit_tensors(source_copy / "weights.safetensors", alter)
    with pytest.raises(
        ArtifactError,
        match=rf"tensor param.{part} has shape \(2, 3\), \(\d.*\) is expected. The folder",
    ):
        load_source(source_copy)


def test_absent_tensor_is_refused_by_name(source_copy):
    def alter(arrays):
        del arrays["x_scale"]

    edit_tensors(source_copy / "weights.safetensors", alter)
    with pytest.raises(ArtifactError, match="tensor x_scale has shape nothing"):
        load_source(source_copy)


def test_absent_draws_are_refused_by_name(run_copy):
    def alter(arrays):
        del arrays["sigma"]

    edit_tensors(run_copy / "draws.safetensors", alter)
    with pytest.raises(
        ArtifactError, match="tensor sigma has shape nothing, .* The folder is damaged"
    ):
        load_run(run_copy)


@pytest.mark.parametrize("key", ["network", "descriptor", "gaps", "card", "history", "references"])
def test_manifest_without_a_part_is_refused_by_name(source_copy, key):
    edit_manifest(source_copy, lambda manifest: manifest.pop(key))
    with pytest.raises(
        ArtifactError, match=f"a part of the stored model is missing or damaged .*{key}"
    ):
        load_source(source_copy)


def test_run_is_refused_as_a_source_and_a_source_as_a_run(source_folder, run_folder):
    with pytest.raises(
        ArtifactError, match="is a run of schema 1; a source of schema 1 is expected here"
    ):
        load_source(run_folder)
    with pytest.raises(
        ArtifactError, match="is a source of schema 1; a run of schema 1 is expected here"
    ):
        load_run(source_folder)


def test_package_cannot_unpickle():
    """No module imports a pickling package or calls a loader that unpickles."""
    packages = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
    calls = {
        ("torch", "load"),
        ("torch", "save"),
        ("joblib", "load"),
        ("joblib", "dump"),
        ("pd", "read_pickle"),
    }
    problems = []
    for path in Path(bandgap.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").split(".")[0]]
            if packages & set(names):
                problems.append(f"{path.name}:{node.lineno} imports {names}")
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                call = (node.value.id, node.attr)
                if call in calls:
                    problems.append(f"{path.name}:{node.lineno} {call}")
            if (
                isinstance(node, ast.keyword)
                and node.arg == "allow_pickle"
                and not (isinstance(node.value, ast.Constant) and node.value.value is False)
            ):
                problems.append(f"{path.name}:{node.value.lineno} allow_pickle")
    assert problems == []
