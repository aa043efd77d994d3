"""A refit learns from all labels and reports the test of its parent."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from bandgap.datasets.table import LabelledSet
from bandgap.evaluation.calibrators import fit_calibrator, load_calibrator, save_calibrator
from bandgap.evaluation.heldout import load_heldout
from bandgap.foundation.errors import InputError
from bandgap.runs.methods_text import methods_text
from bandgap.runs.prediction import predict_run, predict_with_details
from bandgap.runs.refit import refit_run
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import load_run
from tests.unit.runs.brief_transfer import transfer


def labelled(world, gaps_eV=None):
    """Return the set that `transfer` learns from."""
    return LabelledSet(world.records, world.gaps_eV if gaps_eV is None else gaps_eV, "made up")


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture(scope="module")
def parent(source_folder, world, tmp_path_factory):
    """A run that learned from 12 molecules, held back 3 and held out 6; tests do not change it."""
    out = tmp_path_factory.mktemp("refit") / "parent"
    options = {"n": 15, "n_test": 6, "conformal_share": 0.2}
    return transfer(source_folder, world, out, **options)


@pytest.fixture(scope="module")
def refit(parent, source_folder, world):
    """The refit of the parent on all 24 molecules."""
    return refit_run(parent, source_folder, labelled(world), out=parent.parent / "refit")


def test_refit_learns_from_all_labels_with_the_request_of_its_parent(refit, parent, world):
    manifest = manifest_of(refit)
    before = manifest_of(parent)
    assert sorted(manifest["split"]["train"]) == sorted(record.id for record in world.records)
    assert (manifest["split"]["test"], manifest["n"]) == ([], 24)
    changed = {
        name for name, value in manifest["request"].items() if value != before["request"][name]
    }
    assert changed == {"n", "n_test", "conformal_share"}


def test_refit_has_the_weights_of_a_run_on_all_labels(refit, source_folder, world, tmp_path):
    run = transfer(source_folder, world, tmp_path / "all", n=24, n_test=0)
    predictions = [predict_run(folder, world.records) for folder in (refit, run)]
    np.testing.assert_array_equal(predictions[0].mean_eV, predictions[1].mean_eV)


def test_error_of_a_refit_is_that_of_the_test_of_its_parent(refit, parent):
    manifest = manifest_of(refit)
    before = manifest_of(parent)
    for name in ("metrics", "tested", "test_gaps_eV"):
        assert manifest[name] == before[name]
    assert manifest["refit"]["parent"] == "parent"
    assert manifest["refit"]["n"] == before["n"] == 12
    assert manifest["refit"]["test"] == before["split"]["test"]
    split_fields = manifest["refit"]["request"]
    assert {**manifest["request"], **split_fields} == before["request"]
    heldout = load_heldout(refit, manifest)
    assert list(heldout.predictions.ids) == before["split"]["test"]
    assert np.sqrt(np.mean(heldout.errors_eV**2)) == pytest.approx(before["metrics"]["rmse_eV"])


def test_refit_repeats_the_warning_on_near_copies_in_the_test_of_its_parent(
    parent, source_folder, world, tmp_path
):
    copied = tmp_path / "parent"
    shutil.copytree(parent, copied)
    manifest = manifest_of(copied)
    manifest["tested"]["n_near_copies"] = 5
    (copied / "manifest.json").write_text(json.dumps(manifest))
    refit = refit_run(copied, source_folder, labelled(world), out=tmp_path / "refit")
    warnings = manifest_of(refit)["warnings"]
    assert [text[:39] for text in warnings if "near-copy" in text] == [
        "5 of 6 test structures have a near-copy"
    ]


def test_conformal_scores_of_a_refit_are_those_of_structures_not_learned_from(refit, parent, world):
    assert load_run(refit).conformal.scores.tolist() == load_run(parent).conformal.scores.tolist()
    held_back = load_run(parent).conformal.ids
    # its own scores on these structures, which it has learned from, would be smaller
    of_refit = predict_run(refit, [record for record in world.records if record.id in held_back])
    gap_of = dict(zip([record.id for record in world.records], world.gaps_eV, strict=True))
    gaps = np.array([gap_of[id_] for id_ in of_refit.ids])
    leaked = np.abs(gaps - of_refit.mean_eV) / of_refit.sd_new_eV
    assert leaked.max() < load_run(refit).conformal.scores.max()


def test_refit_has_the_calibrator_of_its_parent_and_predict_applies_it(
    source_folder, world, tmp_path
):
    many = dataclasses.replace(
        world,
        records=[*world.source_records[:40], *world.records],
        gaps_eV=np.concatenate([world.source_gaps_eV[:40], world.gaps_eV]),
    )
    parent = transfer(source_folder, many, tmp_path / "parent", n=18, n_test=40)
    calibrator = fit_calibrator(load_heldout(parent, manifest_of(parent)), "variance")
    save_calibrator(parent, calibrator)
    refit = refit_run(parent, source_folder, labelled(many), out=tmp_path / "refit")
    assert load_calibrator(refit) == calibrator
    plain = predict_run(refit, many.records[:3], PredictRequest(calibrated=False))
    scaled = predict_run(refit, many.records[:3])
    np.testing.assert_allclose(scaled.sd_new_eV, calibrator.factor * plain.sd_new_eV)
    ranked, _ = predict_with_details(refit, many.records[:3])  # of compute-next
    np.testing.assert_array_equal(ranked.quantiles_new, scaled.quantiles_new)


def test_refit_with_other_gaps_is_refused(parent, source_folder, world, tmp_path):
    gaps = world.gaps_eV.copy()
    gaps[0] += 0.1
    with pytest.raises(InputError, match=r"labelled structures differ from those of this run \(24"):
        refit_run(parent, source_folder, labelled(world, gaps), out=tmp_path / "out")


def test_refit_with_another_source_is_refused(parent, world, tmp_path):
    run = transfer(
        None, world, tmp_path / "plain", method="gaussian_process", settings={}, n_test=6
    )
    assert refit_run(run, None, labelled(world), out=tmp_path / "again").name == "again"
    manifest = manifest_of(run)
    manifest["source"]["fingerprint"] = manifest_of(parent)["source"]["fingerprint"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="the source model differs"):
        refit_run(run, None, labelled(world), out=tmp_path / "out")


def test_refit_of_a_refit_is_refused_and_names_the_parent(refit, source_folder, world, tmp_path):
    with pytest.raises(InputError, match="refitted on all labels already. Give .* parent"):
        refit_run(refit, source_folder, labelled(world), out=tmp_path / "out")


def test_tiny_error_is_a_warning_of_the_run_of_its_refit_and_of_the_text_of_methods(
    source_folder, world, tmp_path
):
    """A baseline of which the gaps are a straight line, which is not the gaps themselves."""
    data = dataclasses.replace(
        labelled(world), baseline_eV=2.0 * world.gaps_eV + 1e-3 * np.arange(24) % 0.007
    )
    run = transfer(
        source_folder, world, tmp_path / "run", baseline="gap_b_eV", baseline_eV=data.baseline_eV
    )
    refit = refit_run(run, source_folder, data, out=tmp_path / "refit")
    for folder in (run, refit):
        manifest = manifest_of(folder)
        assert manifest["metrics"]["rmse_eV"] < 0.01 * manifest["tested"]["mean_gap_rmse_eV"]
        (warning,) = (text for text in manifest["warnings"] if text.startswith("The RMSE (0.0"))
        assert warning in manifest["diagnostics"]["warnings"]
        assert warning in methods_text(manifest)
