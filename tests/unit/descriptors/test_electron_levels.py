"""Electron levels as features and baselines: runs, predictions, comparisons, refused inputs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bandgap.datasets.table import learnable
from bandgap.descriptors.blocks import NoFeaturesError
from bandgap.descriptors.config import BLOCKS
from bandgap.descriptors.electron_levels import BLOCK, electron_levels
from bandgap.evaluation.heldout import load_heldout
from bandgap.runs.comparison import Comparison, compare, compared_of
from bandgap.runs.prediction import predict_run
from bandgap.runs.stored import load_run
from bandgap.sources.cards import left_out_sentence
from bandgap.sources.sets import open_sources
from bandgap.storage.references import N_REFERENCES
from bandgap.transfer import METHODS
from tests.transfers import transfer_labelled
from tests.unit.transfer.method_settings import BRIEF

pytest.importorskip("tblite")

QUICK = {"draws": 8, "proposals": 50}
LEARNING = [name for name, method in METHODS.items() if method.levels]


def transfer(source_folder, world, out, **more):
    settings = {
        "method": "feature_gp",
        "settings": QUICK,
        "n": 14,
        "n_test": 6,
        "device": "cpu",
        "levels": "GFN1-xTB",
    }
    return transfer_labelled(
        source_folder, world.records, world.gaps_eV, out=out, **(settings | more)
    )


def test_run_with_levels_predicts_new_structures_with_them(source_folder, world, tmp_path):
    without_levels = transfer(source_folder, world, tmp_path / "plain", levels="none")
    run = transfer(source_folder, world, tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["request"]["levels"] == manifest["descriptor"]["levels"] == "GFN1-xTB"
    predictions, plain_predictions = (
        predict_run(folder, world.records[:5]) for folder in (run, without_levels)
    )
    assert np.isfinite(predictions.mean_eV).all() and not np.allclose(
        predictions.mean_eV, plain_predictions.mean_eV
    )
    again = predict_run(run, world.records[:5])
    np.testing.assert_array_equal(predictions.mean_eV, again.mean_eV)


@pytest.mark.parametrize("method", ["btl_pcp_pe", "feature_gp", "last_layer_ridge"])
def test_run_uses_levels_and_reproduces_its_test_predictions(joint_folder, world, tmp_path, method):
    """Two networks, each with its own baseline slope, conformal intervals and a self-check."""
    more = {
        "method": method,
        "settings": BRIEF.get(method, {}),
        "head": "other",
        "conformal_share": 0.2,
    }
    run = load_run(transfer(joint_folder, world, tmp_path, **more))
    assert ("baseline_slope" in run.manifest["diagnostics"]) == (method not in LEARNING)
    heldout = load_heldout(tmp_path, run.manifest)
    records = {record.id: record for record in world.records}
    predictions = predict_run(tmp_path, [records[i] for i in heldout.predictions.ids])
    np.testing.assert_allclose(predictions.mean_eV, heldout.predictions.mean_eV, rtol=0, atol=1e-4)
    np.testing.assert_allclose(
        predictions.quantiles_new, heldout.predictions.quantiles_new, rtol=0, atol=1e-4
    )
    conformal_ids = set(run.manifest["conformal"]["ids"])
    assert (
        len(conformal_ids) == 3 and run.conformal is not None and (run.conformal.scores >= 0).all()
    )


def test_comparison_uses_levels_only_for_methods_that_ask_for_them(source_folder, world):
    members = open_sources(source_folder).load()
    tables = [
        learnable(world.records, world.gaps_eV, descriptor=replace(world.descriptor, levels=levels))
        for levels in ("none", "GFN1-xTB")
    ]
    settings = {"feature_gp": QUICK, "freeze": {}, "kernel_ridge": {}}
    plan = Comparison({**settings, "feature_gp+levels": QUICK, "freeze+levels": {}}, (14,), (0,), 6)
    alone = Comparison(settings, (14,), (0,), 6)
    wide = {
        fit.method: fit.figures
        for fit in compare(compared_of(members, tables[1]), plan, device="cpu")
    }
    narrow = {
        fit.method: fit.figures
        for fit in compare(compared_of(members, tables[0]), alone, device="cpu")
    }
    for name, figures in narrow.items():
        assert wide[name] == pytest.approx(figures)
    for name in ("feature_gp", "freeze"):
        assert wide[f"{name}+levels"]["rmse_eV"] != pytest.approx(wide[name]["rmse_eV"])


class CountedLevels:
    """Electron levels, with the number of structures for which they were computed."""

    def __init__(self) -> None:
        self.n_described = 0

    def __call__(self, atoms, levels):
        self.n_described += 1
        return electron_levels(atoms, levels)


@pytest.fixture
def counted(monkeypatch):
    """Count the structures whose electron levels are computed."""
    levels = CountedLevels()
    use_block(monkeypatch, replace(BLOCK, describe=levels))
    return levels


def use_block(monkeypatch, block):
    """Replace the block of electron levels."""
    monkeypatch.setattr(
        "bandgap.descriptors.config.BLOCKS",
        {setting: block if setting == "levels" else BLOCKS[setting] for setting in BLOCKS},
    )


@pytest.mark.parametrize(("n", "n_test", "share"), [(8, 0, 0.0), (8, 3, 0.25)])
def test_levels_are_computed_only_for_the_structures_of_the_split(
    n, n_test, share, source_folder, world, tmp_path, counted
):
    """24 structures are given; up to five references are described again from the run."""
    folder = transfer(source_folder, world, tmp_path, n=n, n_test=n_test, conformal_share=share)
    assert n + n_test <= counted.n_described <= n + n_test + N_REFERENCES
    plain = transfer(
        source_folder,
        world,
        tmp_path / "plain",
        n=n,
        n_test=n_test,
        conformal_share=share,
        levels="none",
    )
    one, other = (json.loads((run / "manifest.json").read_text()) for run in (folder, plain))
    assert one["split"] == other["split"] and one["data"] == other["data"]


def test_structure_without_levels_is_left_out_of_the_split_and_named(
    source_folder, world, tmp_path, monkeypatch
):
    """The other training structures and the test set stay as they are without levels."""
    plain_run = transfer(source_folder, world, tmp_path / "a", levels="none")
    plain = json.loads((plain_run / "manifest.json").read_text())
    missing_id = plain["split"]["train"][3]
    content = next(record for record in world.records if record.id == missing_id).atoms

    def describe(atoms, levels):
        if len(atoms) == len(content) and np.allclose(atoms.positions, content.positions):
            raise NoFeaturesError("has no GFN1-xTB levels: the calculation did not converge.")
        return electron_levels(atoms, levels)

    use_block(monkeypatch, replace(BLOCK, describe=describe))
    run = transfer(source_folder, world, tmp_path / "b")
    manifest = json.loads((run / "manifest.json").read_text())
    expected = [name for name in plain["split"]["train"] if name != missing_id]
    assert manifest["split"]["train"] == expected
    assert manifest["split"]["test"] == plain["split"]["test"]
    assert manifest["n"] == plain["n"] - 1
    assert [(entry["id"], entry["problem"][:12]) for entry in manifest["left_out"]] == [
        (missing_id, "has no GFN1-")
    ]
    assert f"1 of 24 labelled structures was left out: {missing_id}." in left_out_sentence(manifest)
