"""Structures with elements that the source lacks: who learns them, who leaves them out."""

import dataclasses
import json

import numpy as np
import pytest

from bandgap.descriptors import featurize
from bandgap.descriptors.growing import grown_descriptor
from bandgap.descriptors.potentials.protocol import Potential
from bandgap.foundation.errors import ConfigError
from bandgap.networks.perceptron import hidden_features
from bandgap.predictions.store import load_predictions
from bandgap.runs.compared_tables import tables_for
from bandgap.runs.comparison import CONSTANT, SOURCE_ALONE, Comparison, compare
from bandgap.runs.prediction import predict_run
from bandgap.runs.stored import load_run
from bandgap.sources.cards import NO_SOURCE
from bandgap.sources.new_elements import grown_members, grown_source
from bandgap.sources.recalibration import source_gaps_eV
from bandgap.sources.statistics import hidden_layers
from bandgap.sources.stored import load_source
from bandgap.transfer import METHODS
from tests.unit.conftest import make_records
from tests.unit.runs.sulfur import SULFUR, transfer, with_sulfur
from tests.unit.transfer.method_settings import each_of

LEARN = [name for name, method in METHODS.items() if method.new_elements]
ALONE = [
    name for name, method in METHODS.items() if not method.transfers and not method.new_elements
]


@pytest.fixture(scope="module")
def mixed(world):
    """The target's molecules and six with sulfur."""
    return with_sulfur(world)


def test_grown_source_predicts_the_same_for_known_elements(source_folder, world):
    """Its gaps and last hidden features of known molecules do not depend on new features."""
    source = load_source(source_folder)
    wide = grown_descriptor(source.descriptor, ["S", "C", "N"])
    assert wide.species == ("H", "C", "N", "O", "S")
    records = world.records[:8]
    x = featurize(records, source.descriptor).features
    wide_x = featurize(records, wide).features
    rows = featurize([*records, *make_records(3, seed=0, prefix="s", names=SULFUR)], wide).features
    model = grown_source(source, wide, rows)
    before, after = (
        hidden_features(hidden_layers(m.params), _standardised(m, f))
        for m, f in ((source, x), (model, wide_x))
    )
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        source_gaps_eV(model, model.standardiser, wide_x),
        source_gaps_eV(source, source.standardiser, x),
        rtol=1e-6,
    )
    new = np.setdiff1d(
        np.arange(wide_x.shape[1]), np.flatnonzero((model.params["weight.1"] != 0).any(0))
    )
    changed = wide_x.copy()
    changed[:, new] += 1.0
    np.testing.assert_array_equal(
        source_gaps_eV(model, model.standardiser, changed),
        source_gaps_eV(model, model.standardiser, wide_x),
    )
    scales = model.standardiser.features(rows)
    # On scales of the target's rows, as the source has none of sulfur.
    assert np.abs(scales).max() < 50


def _standardised(model, features):
    import torch

    return torch.from_numpy(model.standardiser.features(features)).float()


def test_source_that_knows_all_elements_is_left_as_it_is(source_folder, world):
    source = load_source(source_folder)
    same = grown_descriptor(source.descriptor, ["H", "O"])
    assert same is source.descriptor
    assert grown_source(source, same, featurize(world.records, same).features) is source


def test_electron_levels_are_no_features_of_a_grown_source(source_folder, world):
    source = load_source(source_folder)
    with_levels = dataclasses.replace(source.descriptor, levels="GFN1-xTB")
    x = featurize(world.records, source.descriptor).features
    with pytest.raises(ConfigError, match="electron levels 'GFN1-xTB'. Give it without levels"):
        grown_members([{"": source}], with_levels, np.hstack([x, x[:, :3]]))


@each_of(
    {name: name for name in LEARN},
    in_default_run=["btl_pcp_pe", "feature_gp", "pbp", "ensemble", "target_only"],
)
def test_method_learns_of_elements_that_the_source_lacks(
    source_folder, mixed, world, tmp_path, method
):
    run = transfer(source_folder, mixed, tmp_path, method)
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["n"] == 30 and manifest["left_out"] == []
    assert manifest["source"]["new_elements"] == ["S"] and manifest["descriptor"]["species"] == [
        "H",
        "C",
        "O",
        "S",
    ]
    load_run(run)  # predicts its references again
    predictions = predict_run(
        run, [*make_records(6, seed=21, prefix="new", names=SULFUR), world.foreign]
    )
    assert predictions.status[-1] == "refused" and "Si" in predictions.problem[-1]
    assert np.isfinite(predictions.mean_eV[:-1]).all()
    assert (
        "Contains S, never seen by the source model; training structures: S in 6"
        in predictions.domain[0]
    )


@pytest.mark.parametrize("has_source", [False, True], ids=["no source", "a source that lacks it"])
def test_structure_that_keeps_all_from_a_potential_is_learned_from_and_named(
    source_folder, world, tmp_path, monkeypatch, has_source
):
    monkeypatch.setattr(Potential, "is_installed", True)
    odd = make_records(1, seed=5, prefix="odd", names=("CH4",))[0]
    odd.atoms.symbols[0] = "Po"
    data = [*world.records, odd], np.append(world.gaps_eV, 4.0)
    run = transfer(source_folder if has_source else None, data, tmp_path, "kernel_ridge")
    manifest = json.loads((run / "manifest.json").read_text())
    (warning,) = [text for text in manifest["warnings"] if "does not know Po" in text]
    assert "(in 1 of 25 structures: odd" in warning and manifest["left_out"] == []
    compared = tables_for(["kernel_ridge"], source_folder if has_source else None, *data)
    assert warning in compared.of("kernel_ridge").warnings


@each_of(
    {name: name for name in ALONE}, in_default_run=["kernel_ridge", "gaussian_process", "parts_gp"]
)
def test_method_without_transfer_does_as_without_the_source_that_lacks_an_element(
    source_folder, mixed, tmp_path, method
):
    """None of the structures is left out, and the run is the one that no source gives."""
    run = transfer(source_folder, mixed, tmp_path / "with_source", method)
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["n"] == 30 and manifest["left_out"] == []
    assert {"H", "C", "O", "S"} <= set(load_run(run).descriptor.elements)
    assert manifest["source"]["fingerprint"] == NO_SOURCE
    assert any(
        "The source model has no S. This method does without one" in text
        for text in manifest["warnings"]
    )
    alone = transfer(None, mixed, tmp_path / "alone", method)
    new = make_records(4, seed=21, prefix="new", names=SULFUR)
    with_source, without = (predict_run(folder, new) for folder in (run, alone))
    assert "refused" not in with_source.status
    np.testing.assert_array_equal(with_source.mean_eV, without.mean_eV)
    np.testing.assert_array_equal(with_source.interval(0.9), without.interval(0.9))


@pytest.mark.parametrize("method", ["gaussian_process", "kernel_ridge"])
def test_method_without_transfer_keeps_the_descriptor_of_a_source_that_knows_all_elements(
    source_folder, world, tmp_path, method
):
    manifest = json.loads(
        (
            transfer(source_folder, (world.records, world.gaps_eV), tmp_path, method)
            / "manifest.json"
        ).read_text()
    )
    assert (
        manifest["descriptor"]["species"] == ["H", "C", "O"]
        and manifest["source"]["fingerprint"] != NO_SOURCE
    )


@pytest.mark.parametrize("method", ["last_layer_ridge", "freeze"])
def test_method_with_a_fixed_first_layer_leaves_out_new_elements(
    source_folder, mixed, tmp_path, method
):
    manifest = json.loads(
        (transfer(source_folder, mixed, tmp_path, method) / "manifest.json").read_text()
    )
    assert (
        manifest["n"] == 24
        and len(manifest["left_out"]) == 6
        and "new_elements" not in manifest["source"]
    )


def test_networks_and_outputs_of_a_source_all_grow(joint_folder, mixed, tmp_path):
    run = transfer(joint_folder, mixed, tmp_path, "fine_tune", head="other")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["source"]["members"] == 2 and manifest["n"] == 30
    plain = transfer(
        joint_folder, (mixed[0][:24], mixed[1][:24]), tmp_path / "plain", "fine_tune", head="other"
    )
    same = json.loads((plain / "manifest.json").read_text())["source"]
    # Of what is stored, not of what it grew to.
    assert same["fingerprint"] == manifest["source"]["fingerprint"]


COMPARED = {
    "feature_gp": {"draws": 8, "proposals": 50},
    "gaussian_process": {},
    "last_layer_ridge": {},
}


def compared_on(folder, mixed, methods, *, sizes=(14,), seeds=(1,), done=()):
    records, gaps = mixed
    tables = tables_for(methods, folder, records, gaps)
    plan = Comparison({name: COMPARED[name] for name in methods}, sizes, seeds, n_test=6)
    return tables, list(compare(tables, plan, device="cpu", done=done))


def heldout_rmse_eV(run, mixed):
    stored = load_predictions(run / "quantiles.safetensors")
    gaps = dict(zip([r.id for r in mixed[0]], mixed[1], strict=True))
    return np.sqrt(np.mean((stored.mean_eV - np.array([gaps[i] for i in stored.ids])) ** 2))


def test_methods_of_all_three_kinds_are_compared_on_structures_that_each_takes(
    source_folder, mixed, tmp_path
):
    """Every figure is that of a run with `test_known`.

    The method that leaves sulfur out would have these test rows.
    """
    tables, fits = compared_on(source_folder, mixed, list(COMPARED))
    assert set(tables.common) == {r.id for r in mixed[0][:24]} and tables.lacking == {"S": 6}
    by_method = {fit.method: fit for fit in fits}
    for method, settings in COMPARED.items():
        run = transfer(
            source_folder,
            mixed,
            tmp_path / method,
            method,
            n=14,
            n_test=6,
            seed=1,
            test_known=True,
            settings=settings,
        )
        assert by_method[method].figures["rmse_eV"] == pytest.approx(
            heldout_rmse_eV(run, mixed), rel=1e-5
        )
        manifest = json.loads((run / "manifest.json").read_text())
        assert not [id for id in manifest["split"]["test"] if id.startswith("sulfur")]
        assert bool([id for id in manifest["split"]["train"] if id.startswith("sulfur")]) == (
            method != "last_layer_ridge"
        )
    (warning,) = by_method["gaussian_process"].warnings
    assert warning.startswith("The source model has no S. This method does without one")
    assert tables.left_out(30)[0].startswith("6 of 30 labelled structures were left out: sulfur-00")
    assert tables.sentence == (
        "Every method was tested on the same structures in each split, drawn from the 24 of 30 "
        "labelled ones that all of them take. The source model has no S (in 6). Structures with "
        "such elements are learned from by feature_gp; taken without the source model, in a "
        "descriptor for all elements, by gaussian_process; left out by last_layer_ridge."
    )


def test_fit_on_other_test_rows_is_not_reused(source_folder, mixed):
    """With a method that leaves structures out, fits on all structures are recomputed."""
    _, first = compared_on(source_folder, mixed, ["feature_gp"])
    tables, again = compared_on(
        source_folder, mixed, ["feature_gp", "last_layer_ridge"], done=first
    )
    assert {fit.tested_on for fit in first} == {""}
    assert [fit.method for fit in again] == [
        CONSTANT,
        SOURCE_ALONE,
        "feature_gp",
        "last_layer_ridge",
    ]
    assert {fit.tested_on for fit in again} == {tables.tested_on} != {""}
    assert (
        compared_on(
            source_folder, mixed, ["feature_gp", "last_layer_ridge"], done=[*first, *again]
        )[1]
        == []
    )


def test_methods_that_take_too_few_structures_are_left_out_where_that_is_asked_for(
    source_folder, mixed
):
    records, gaps = mixed
    tables = tables_for(list(COMPARED), source_folder, records, gaps, min_structures=25)
    assert tables.unable == ("last_layer_ridge",) and len(tables.common) == 30
    assert tables_for(list(COMPARED), source_folder, records, gaps, min_structures=24).unable == ()
    assert (
        tables_for(list(COMPARED), source_folder, records[:24], gaps[:24], min_structures=25).unable
        == ()
    )


def test_split_by_formula_among_known_elements_keeps_formulas_whole(source_folder, mixed, tmp_path):
    run = transfer(
        source_folder,
        mixed,
        tmp_path,
        "feature_gp",
        n=12,
        n_test=9,
        seed=1,
        test_known=True,
        by_formula=True,
        settings=COMPARED["feature_gp"],
    )
    split = json.loads((run / "manifest.json").read_text())["split"]
    formula = {r.id: r.atoms.get_chemical_formula() for r in mixed[0]}
    assert len(split["train"]) == 12 and 0 < len(split["test"]) <= 9
    assert not {formula[i] for i in split["train"]} & {formula[i] for i in split["test"]}
    assert not [id for id in split["test"] if id.startswith("sulfur")]


def test_known_elements_of_no_source_are_all(mixed, tmp_path):
    """Without a source model `test_known` changes nothing."""
    plain, on_known_elements = (
        transfer(
            None,
            mixed,
            tmp_path / str(is_asked),
            "kernel_ridge",
            n=14,
            n_test=6,
            test_known=is_asked,
        )
        for is_asked in (False, True)
    )
    splits = [
        json.loads((run / "manifest.json").read_text())["split"]
        for run in (plain, on_known_elements)
    ]
    assert splits[0]["test"] == splits[1]["test"] and splits[0]["train"] == splits[1]["train"]
