"""Explanations of predictions: labels and their weights, width, and elements."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet
from bandgap.foundation.errors import ArtifactError
from bandgap.predictions.explanations import (
    load_explanations,
    save_explanations,
    width_sentence,
)
from bandgap.runs.explanation import explain_predictions, feature_groups
from bandgap.runs.prediction import predict_run
from bandgap.runs.stored import load_run
from bandgap.structures import read_structures
from tests.unit.runs.brief_transfer import transfer_labelled

WATER = (
    '3\nProperties=species:S:1:pos:R:3 id="w{k:03d}" pbc="F F F"\nO 0 0 {height:.6f}\n'
    "H {half:.6f} 0 0.504\nH -0.758 0 0.504\n"
)
N = 30
FIELDS = {"species": ("H", "O"), "n": 24, "n_test": 6, "seed": 3, "level_of_theory": "made up"}


@pytest.fixture(scope="module")
def data() -> LabelledSet:
    """Distorted waters; their gap depends on the shape, with noise."""
    rng = np.random.default_rng(0)
    heights, halves = rng.uniform(-0.3, 0.2, N), rng.uniform(0.7, 0.9, N)
    text = "".join(WATER.format(k=k, height=heights[k], half=halves[k]) for k in range(N))
    gaps = 6 - 3 * heights + 4 * halves**2 + 0.05 * rng.normal(size=N)
    return LabelledSet(read_structures(text.encode(), "waters.extxyz"), gaps, "made up")


@pytest.fixture(scope="module")
def run(data: LabelledSet, tmp_path_factory) -> Path:
    """A Gaussian process on 24 waters; tests do not change it."""
    out = tmp_path_factory.mktemp("explained") / "run"
    return transfer_labelled(
        None, data.records, data.gaps_eV, out=out, method="gaussian_process", **FIELDS
    )


def test_weights_and_noise_are_those_of_the_prediction(run: Path, data: LabelledSet) -> None:
    held_out = [r for r in data.records if r.id in load_run(run).manifest["split"]["test"]]
    explanations = explain_predictions(run, data, held_out, n_labels=24)
    predictions = predict_run(run, held_out)
    gap_of_id = dict(zip([r.id for r in data.records], data.gaps_eV.tolist(), strict=True))
    level = np.mean([gap_of_id[i] for i in load_run(run).manifest["split"]["train"]])
    assert (explanations.way, explanations.share, len(explanations.rows)) == ("kernel", 1.0, 6)
    for k, explained in enumerate(explanations.rows):
        assert explained.id == held_out[k].id
        assert explained.mean_eV == pytest.approx(predictions.mean_eV[k], abs=1e-6)
        by_labels = level + sum(x.weight * (x.gap_eV - level) for x in explained.labels)
        assert by_labels == pytest.approx(explained.mean_eV, abs=1e-4)
        sd = np.hypot(explained.noise_sd_eV, explained.model_sd_eV)
        assert sd == pytest.approx(predictions.sd_new_eV[k], rel=0.02)
        weights = np.abs([label.weight for label in explained.labels])
        assert (np.diff(weights) <= 0).all()
        assert all(label.gap_eV == gap_of_id[label.id] for label in explained.labels)
        assert {name for name, _ in explained.features} == {"H", "O"}


def test_labelled_structure_itself_is_nearest_and_weightiest(run, data) -> None:
    train = load_run(run).manifest["split"]["train"]
    (record,) = [r for r in data.records if r.id == train[0]]
    (explained,) = explain_predictions(run, data, record).rows
    nearest = min(explained.labels, key=lambda label: label.distance)
    assert nearest.id == train[0]
    assert nearest.distance == pytest.approx(0.0, abs=1e-6)


def test_trees_have_no_weights_but_nearest_structures(data, tmp_path) -> None:
    folder = transfer_labelled(
        None, data.records, data.gaps_eV, out=tmp_path / "r", method="random_forest", **FIELDS
    )
    explanations = explain_predictions(folder, data, data.records[:2])
    assert explanations.way == ""
    labels = explanations.rows[0].labels
    assert len(labels) == 5
    assert all(label.weight is None for label in labels)
    assert (np.diff([label.distance for label in labels]) >= 0).all()


def test_refused_structures_are_left_out_also_where_there_are_no_others(run, data) -> None:
    refused = read_structures(b"no structure", "broken.xyz")
    assert explain_predictions(run, data, refused).rows == ()
    explanations = explain_predictions(run, data, [*refused, data.records[0]])
    assert [explained.row for explained in explanations.rows] == [1]


def test_groups_are_the_elements_of_a_structure_and_blocks_without_elements(run) -> None:
    descriptor = load_run(run).descriptor
    groups = feature_groups(replace(descriptor, size=True), ["O"])
    assert set(groups) == {"O", "size"}
    blocks = feature_groups(descriptor, ["H", "O"])
    both = np.union1d(blocks["H"], blocks["O"])
    assert both.size == max(both) + 1  # every feature is of one of the elements


def test_stored_explanations_are_read_back_and_damage_is_told(run, data, tmp_path) -> None:
    explanations = explain_predictions(run, data, data.records[:2])
    path = tmp_path / "explanations.json"
    assert load_explanations(path) is None
    save_explanations(path, explanations)
    assert load_explanations(path) == explanations
    path.write_text(json.dumps({"format": "other"}))
    with pytest.raises(ArtifactError, match="Explain them again"):
        load_explanations(path)


def test_sentence_names_noise_model_or_distance(run, data) -> None:
    explained = explain_predictions(run, data, data.records[:1]).rows[0]

    def sentence(**values: float) -> str:
        return width_sentence(replace(explained, **values), typical_sd_eV=0.05)

    assert sentence(noise_sd_eV=0.2, model_sd_eV=0.1, percentile=0.5).startswith(
        "Mostly what the descriptor"
    )
    assert sentence(noise_sd_eV=0.1, model_sd_eV=0.2, percentile=0.5).startswith("Mostly the mo")
    both = sentence(noise_sd_eV=0.1, model_sd_eV=0.11, percentile=0.5)
    assert both.endswith("and the model about equally: noise 0.10 eV, model 0.11 eV.")
    far = sentence(noise_sd_eV=0.1, model_sd_eV=0.2, percentile=0.98)
    assert far.startswith("Mostly distance") and "than 98 % of them" in far
