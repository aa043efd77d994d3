"""Runs on small molecules: labelled structures in, a folder out, a row for every one."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.calibrators import Calibrator, save_calibrator
from bandgap.evaluation.heldout import figures_at, load_heldout
from bandgap.foundation.errors import Cancelled
from bandgap.inference.diagnostics import rhat
from bandgap.predictions.store import load_predictions
from bandgap.predictions.table import COLUMNS, DOMAIN_P
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from bandgap.sources.overlap import KEYS
from bandgap.sources.training import train_source_folder
from tests.transfers import transfer_labelled
from tests.unit.runs.brief_transfer import transfer

BAYES = {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 12}}


@pytest.fixture(scope="module")
def bayes(source_folder, world, tmp_path_factory):
    """A Bayesian run on 14 training and 6 test molecules; tests must not change it."""
    out = tmp_path_factory.mktemp("bayes")
    return transfer(source_folder, world, out, method="btl_pcp_pe", settings=BAYES, n=14, n_test=6)


@pytest.fixture(scope="module")
def manifest(bayes):
    return json.loads((bayes / "manifest.json").read_text())


def test_manifest_says_how_the_run_was_made(manifest, world):
    assert manifest["method"] == "btl_pcp_pe"
    assert manifest["request"]["seed"] == 5
    assert manifest["n"] == 14
    assert manifest["level_of_theory"] == "made up"
    assert manifest["config"]["lam"] == 1.0
    assert manifest["config"]["sampler"]["warmup"] == 20
    assert manifest["source"]["card"]["level_of_theory"] == "made up"
    # The same six, with other displacements.
    assert manifest["source"]["overlap"] == {
        "n": 20,
        "structures": 0,
        "molecules": 20,
        "near_copies": 20,
    }
    assert manifest["data"]["n_labelled"] == manifest["data"]["n_given"] == 24
    assert manifest["elapsed_s"]["all"] >= manifest["elapsed_s"]["fit"] > 0
    assert manifest["peak_memory_bytes"]["process"] > 50_000_000  # torch alone takes more
    assert {"torch", "dscribe", "ase"} <= set(manifest["versions"])
    assert [r["id"] for r in manifest["references"]] == manifest["split"]["train"][:5]


def test_source_knows_the_structures_that_it_was_trained_on(source_folder, world, tmp_path):
    both = dataclasses.replace(
        world,
        records=[*world.source_records[:8], *world.records],
        gaps_eV=np.concatenate([world.source_gaps_eV[:8], world.gaps_eV]),
    )
    run = transfer(source_folder, both, tmp_path)
    content = json.loads((run / "manifest.json").read_text())["source"]["overlap"]
    assert content == {"n": 32, "structures": 8, "molecules": 32, "near_copies": 32}


def test_run_of_a_source_without_keys_says_that_the_overlap_is_not_known(
    source_folder, world, tmp_path
):
    bare = tmp_path / "source"
    shutil.copytree(source_folder, bare)
    (bare / KEYS).unlink()
    run = transfer(bare, world, tmp_path / "run")
    assert json.loads((run / "manifest.json").read_text())["source"]["overlap"] is None


def test_split_is_that_of_the_seed_on_sorted_ids(manifest, world):
    ids = sorted(record.id for record in world.records)
    drawn = [ids[i] for i in np.random.default_rng(5).permutation(24)]
    assert manifest["split"] == {"test": drawn[:6], "train": drawn[6:20]}


def test_metrics_are_those_of_the_test_set(bayes, manifest, world):
    assert set(manifest["metrics"]) >= {
        "rmse_eV",
        "mae_eV",
        "nll",
        "crps_eV",
        "coverage_95",
        "width_95_eV",
    }
    with (bayes / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    labels = dict(zip((r.id for r in world.records), world.gaps_eV, strict=True))
    errors = [float(row["mean_eV"]) - labels[row["id"]] for row in rows]
    assert manifest["metrics"]["rmse_eV"] == pytest.approx(
        np.sqrt(np.mean(np.square(errors))), abs=1e-3
    )
    inside = [float(r["lower_eV"]) <= labels[r["id"]] <= float(r["upper_eV"]) for r in rows]
    assert manifest["metrics"]["coverage_95"] == pytest.approx(np.mean(inside))


def test_diagnostics_are_flat_and_grouped_by_quantity(manifest):
    figures = manifest["diagnostics"]
    quantities = {"tau", "sigma", "c1", "c2", "c3", "predictions"}
    assert set(figures["rhat"]) == set(figures["ess"]) == quantities
    assert figures["rhat_max"] >= max(figures["rhat"].values())
    assert figures["divergences"] >= 0
    assert sum(figures["c_mean"]) == pytest.approx(1.0)
    assert len(figures["c_sd"]) == 3
    assert figures["warnings"] == manifest["warnings"]


def test_predictions_on_which_chains_agree_least_are_stored_draw_by_draw(bayes, manifest):
    record = load_file(bayes / "diagnostics.safetensors")
    traces = {name: draws for name, draws in record.items() if name.startswith("trace.gap of ")}
    assert len(traces) == 3 < len(manifest["split"]["test"])
    worst = max(float(rhat(draws)) for draws in traces.values())
    assert worst == pytest.approx(manifest["diagnostics"]["rhat"]["predictions"], rel=1e-4)
    with (bayes / "predictions.csv").open(encoding="utf-8") as file:
        means = {row["id"]: float(row["mean_eV"]) for row in csv.DictReader(file)}
    for name, draws in traces.items():
        structure = name.removeprefix("trace.gap of ").removesuffix(" (eV)")
        assert draws.mean() == pytest.approx(means[structure], abs=1e-3)


def test_warnings_of_chains_that_have_not_agreed_stand_in_the_manifest(manifest):
    """Twenty draws never agree."""
    assert any("The chains have not agreed yet on" in text for text in manifest["warnings"])


def test_test_predictions_are_written_as_table_and_with_all_quantiles(bayes, manifest):
    with (bayes / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert tuple(rows[0]) == (*COLUMNS, DOMAIN_P)
    assert [row[0] for row in rows[1:]] == manifest["split"]["test"]
    stored = load_predictions(bayes / "quantiles.safetensors")
    assert stored.ids == tuple(manifest["split"]["test"])
    assert stored.level_of_theory == "made up"


def test_run_carries_the_known_gaps_of_its_test_structures(bayes, manifest, world):
    held_out = load_heldout(bayes, manifest)
    by_id = dict(zip([record.id for record in world.records], world.gaps_eV, strict=True))
    assert held_out.gaps_eV.tolist() == [by_id[i] for i in manifest["split"]["test"]]
    content = figures_at(held_out, 0.95)
    for name, stored in (
        ("rmse_eV", "rmse_eV"),
        ("coverage", "coverage_95"),
        ("width_eV", "width_95_eV"),
    ):
        assert content[name] == pytest.approx(manifest["metrics"][stored], rel=1e-9)
    # From quantiles, not draws.
    assert content["crps_eV"] == pytest.approx(manifest["metrics"]["crps_eV"], rel=0.02)


def test_prediction_uses_the_calibrator_that_is_stored_with_the_run(bayes, world, tmp_path):
    run = shutil.copytree(bayes, tmp_path / "run")
    records = world.records[:2]
    plain = predict_run(run, records)
    save_calibrator(run, Calibrator("variance", ("a",), ("",), 0, 10, factor=2.0))
    np.testing.assert_allclose(predict_run(run, records).sd_new_eV, 2.0 * plain.sd_new_eV)
    np.testing.assert_array_equal(
        predict_run(run, records, PredictRequest(calibrated=False)).sd_new_eV, plain.sd_new_eV
    )
    save_calibrator(
        run, Calibrator("conformal", ("a",) * 19, ("",) * 19, 0, 10, scores=(1.5,) * 19)
    )
    lower, upper = predict_run(run, records, PredictRequest(interval="conformal")).interval(
        0.95, "conformal"
    )
    np.testing.assert_allclose(upper - lower, 2 * 1.5 * plain.sd_new_eV)


def test_stored_run_gives_its_test_predictions_again(bayes, manifest, world):
    stored = load_predictions(bayes / "quantiles.safetensors")
    by_id = {record.id: record for record in world.records}
    again = predict_run(bayes, [by_id[i] for i in stored.ids])
    np.testing.assert_allclose(again.mean_eV, stored.mean_eV, atol=1e-5)
    np.testing.assert_allclose(again.quantiles_new, stored.quantiles_new, atol=1e-4)


def test_run_repeats_with_the_seed(bayes, manifest, source_folder, world, tmp_path):
    again = transfer(
        source_folder, world, tmp_path, method="btl_pcp_pe", settings=BAYES, n=14, n_test=6
    )
    repeated = json.loads((again / "manifest.json").read_text())
    for key in ("metrics", "split", "references", "data", "source"):
        assert repeated[key] == manifest[key]


def test_test_set_is_a_fifth_and_training_the_rest_by_default(source_folder, world, tmp_path):
    out = transfer(source_folder, world, tmp_path)
    split = json.loads((out / "manifest.json").read_text())["split"]
    assert (len(split["test"]), len(split["train"])) == (5, 19)


def test_run_without_test_rows_has_no_metrics_and_no_table(source_folder, world, tmp_path):
    out = transfer(source_folder, world, tmp_path, n=24)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["metrics"] == {}
    assert manifest["n"] == 24
    assert not (out / "predictions.csv").exists()
    assert len(predict_run(out, world.records[:3])) == 3


def test_refused_and_unlabelled_structures_are_left_out(source_folder, world, tmp_path):
    records = [*world.records, world.broken, world.foreign]
    gaps = np.concatenate([world.gaps_eV, [3.0, 3.0]])
    gaps[0] = np.nan
    # It keeps the source's first layer.
    settings = {
        "method": "last_layer_ridge",
        "n_test": 3,
        "device": "cpu",
    }
    out = transfer_labelled(source_folder, records, gaps, out=tmp_path, **settings)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["data"]["n_labelled"] == 23
    assert manifest["data"]["n_given"] == 26
    used = {*manifest["split"]["train"], *manifest["split"]["test"]}
    assert not used & {world.records[0].id, "broken", "foreign"}


@pytest.mark.parametrize("interval", ["prediction", "credible"])
def test_prediction_has_one_row_for_every_structure(bayes, world, interval):
    records = [world.records[0], world.broken, world.records[1], world.foreign]
    frame = predict_run(
        bayes, records, PredictRequest(probability=0.9, interval=interval)
    ).to_frame(0.9, interval)
    assert frame["id"].tolist() == [world.records[0].id, "broken", world.records[1].id, "foreign"]
    assert frame["status"].tolist()[1] == frame["status"].tolist()[3] == "refused"
    assert frame.loc[[1, 3], ["mean_eV", "sd_eV", "lower_eV", "upper_eV"]].isna().all(axis=None)
    assert frame.loc[[0, 2], ["mean_eV", "sd_eV", "lower_eV", "upper_eV"]].notna().all(axis=None)
    assert frame["problem"][1] == "block 1 has no atoms."
    assert "Si" in frame["problem"][3]
    assert frame["domain"].tolist()[1] == frame["domain"].tolist()[3] == ""


def test_prediction_of_refused_structures_alone_is_all_empty(bayes, world):
    predictions = predict_run(bayes, [world.broken, world.foreign])
    assert predictions.status == ("refused", "refused")
    assert np.isnan(predictions.mean_eV).all()


def test_prediction_of_nothing_is_an_empty_table(bayes):
    predictions = predict_run(bayes, [])
    assert len(predictions) == 0
    assert predictions.to_frame().columns.tolist() == [*COLUMNS, DOMAIN_P]


def test_level_of_theory_travels_to_the_predictions(bayes, world):
    assert predict_run(bayes, world.records[:1]).level_of_theory == "made up"


def test_second_run_over_the_same_structures_computes_no_descriptor(source_folder, world, tmp_path):
    cache = DescriptorCache(tmp_path / "cache")
    out = transfer(source_folder, world, tmp_path / "run", cache=cache)
    updates = []
    first = predict_run(out, world.records, cache=cache, progress=updates.append)
    second = predict_run(out, world.records)
    np.testing.assert_allclose(first.mean_eV, second.mean_eV, atol=1e-6)
    assert updates[-1].done == updates[-1].total == 24


def test_cancel_leaves_no_run(source_folder, world, tmp_path):
    def cancel(update):
        if update.phase == "fine-tuning":
            raise Cancelled("cancelled by the test")

    with pytest.raises(Cancelled):
        transfer(source_folder, world, tmp_path / "run", progress=cancel)
    assert not (tmp_path / "run").exists()


def test_source_run_leaves_out_what_it_cannot_learn_from(world, tmp_path):
    records = [*world.records, world.broken]
    gaps = np.append(world.gaps_eV, 3.0)
    settings = {
        "descriptor": world.descriptor,
        "config": world.source_config,
        "seed": 0,
        "device": "cpu",
    }
    out = train_source_folder(records, gaps, out=tmp_path / "source", **settings)
    card = json.loads((out / "manifest.json").read_text())["card"]
    assert (card["n_structures"], card["data"], card["elements"]) == (
        24,
        ["made.xyz"],
        ["C", "H", "O"],
    )


def test_named_test_structures_are_held_out_whatever_the_seed(source_folder, world, tmp_path):
    test_ids = sorted(record.id for record in world.records)[3:8]
    for seed in (0, 1):
        folder = transfer(
            source_folder, world, tmp_path / str(seed), test_ids=test_ids, n=12, seed=seed
        )
        content = json.loads((folder / "manifest.json").read_text())
        assert (
            content["split"]["test"] == test_ids
            and len(content["split"]["train"]) == content["n"] == 12
        )
        assert not set(content["split"]["train"]) & set(test_ids)
        gaps = {record.id: gap for record, gap in zip(world.records, world.gaps_eV, strict=True)}
        assert content["test_gaps_eV"] == [gaps[id] for id in test_ids]
