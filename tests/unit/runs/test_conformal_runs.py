"""Runs that hold structures back for conformal intervals: the fit does not use them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from bandgap.datasets.table import learnable
from bandgap.foundation.errors import ArtifactError, ConfigError, InputError
from bandgap.predictions.store import load_predictions
from bandgap.runs.comparison import Comparison, compare, compared_of
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import load_run
from bandgap.sources.sets import open_sources
from tests.transfers import transfer_labelled
from tests.unit.conftest import gaps_of, make_records

SETTINGS = {
    "fine_tune": {"training": {"max_epochs": 10, "batch_size": 8}},
    "btl_pcp_pe": {"sampler": {"chains": 2, "warmup": 20, "draws": 20, "keep": 12}},
    "kernel_ridge": {},
}


@pytest.fixture(scope="module")
def records():
    return make_records(60, seed=7, prefix="labelled")


@pytest.fixture(scope="module")
def gaps_eV(records):
    return gaps_of(records, seed=8, shift=-0.5)


def transfer(source_folder, records, gaps_eV, out, *, method="fine_tune", share=0.4, **more):
    settings = {
        "method": method,
        "settings": SETTINGS[method],
        "n": 50,
        "n_test": 10,
        "seed": 5,
        "device": "cpu",
    }
    return transfer_labelled(
        source_folder, records, gaps_eV, out=out, conformal_share=share, **(settings | more)
    )


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture(scope="module", params=SETTINGS)
def run(request, source_folder, records, gaps_eV, tmp_path_factory):
    """Runs with 10 test rows, 30 training rows and 20 held back; tests must not change them."""
    return transfer(
        source_folder, records, gaps_eV, tmp_path_factory.mktemp("run"), method=request.param
    )


@pytest.fixture(scope="module")
def short(source_folder, records, gaps_eV, tmp_path_factory):
    """A run that held back 5 structures, enough for 83 %."""
    return transfer(source_folder, records, gaps_eV, tmp_path_factory.mktemp("short"), share=0.1)


@pytest.fixture(scope="module")
def plain(source_folder, records, gaps_eV, tmp_path_factory):
    """A run that held nothing back."""
    return transfer(source_folder, records, gaps_eV, tmp_path_factory.mktemp("plain"), share=0.0)


def test_held_back_structures_are_those_of_the_training_draw_that_came_last(run, records):
    manifest = manifest_of(run)
    ids = sorted(record.id for record in records)
    drawn = [ids[i] for i in np.random.default_rng(5).permutation(60)]
    assert manifest["split"] == {"test": drawn[:10], "train": drawn[10:40]}
    assert manifest["conformal"]["ids"] == drawn[40:]
    assert manifest["n"] == 30


def test_scores_are_the_errors_of_the_stored_run_in_units_of_its_spread(run, records, gaps_eV):
    stored = load_run(run).conformal
    number = {record.id: i for i, record in enumerate(records)}
    rows = [number[i] for i in stored.ids]
    predictions = predict_run(run, [records[i] for i in rows])
    np.testing.assert_allclose(
        stored.scores,
        np.abs(gaps_eV[rows] - predictions.mean_eV) / predictions.sd_new_eV,
        rtol=1e-3,
    )


def test_gaps_of_held_back_structures_change_their_scores_and_nothing_of_the_fit(
    run, source_folder, records, gaps_eV, tmp_path
):
    manifest = manifest_of(run)
    position_of_id = {i: position for position, i in enumerate(manifest["conformal"]["ids"])}
    altered = np.array(
        [
            gap + 10.0 * (record.id in position_of_id)
            for record, gap in zip(records, gaps_eV, strict=True)
        ]
    )
    other = transfer(source_folder, records, altered, tmp_path, method=manifest["method"])
    first, second = (load_predictions(folder / "quantiles.safetensors") for folder in (run, other))
    np.testing.assert_array_equal(first.quantiles_new, second.quantiles_new)
    assert (second.conformal.scores > first.conformal.scores).all()


def test_held_out_coverage_and_width_of_the_conformal_interval_are_in_the_metrics(
    run, records, gaps_eV
):
    metrics = manifest_of(run)["metrics"]
    stored = load_predictions(run / "quantiles.safetensors")
    gap_of_id = dict(zip((record.id for record in records), gaps_eV, strict=True))
    lower, upper = stored.interval(0.95, "conformal")
    inside = [
        low <= gap_of_id[i] <= high for i, low, high in zip(stored.ids, lower, upper, strict=True)
    ]
    assert metrics["coverage_conformal_95"] == pytest.approx(np.mean(inside))
    assert metrics["width_conformal_95_eV"] == pytest.approx(np.mean(upper - lower))
    factor = np.sort(stored.conformal.scores)[-1]  # of 20 scores the largest
    np.testing.assert_allclose(upper, stored.mean_eV + factor * stored.sd_new_eV)


def test_predictions_of_new_structures_have_the_third_kind(run, records):
    frame = predict_run(
        run, records[:3], PredictRequest(probability=0.8, interval="conformal")
    ).to_frame(0.8, "conformal")
    assert set(frame["interval"]) == {"conformal"}
    factor = np.sort(load_run(run).conformal.scores)[16]  # ceil(21 * 0.8) = 17th
    np.testing.assert_allclose(frame["upper_eV"] - frame["mean_eV"], factor * frame["sd_eV"])


def test_too_few_held_back_structures_are_a_warning_and_refused_for_that_level_alone(
    short, records
):
    manifest = manifest_of(short)
    text = (
        "5 held-back structures are too few for 95 % conformal intervals, which need 19: read "
        "those of 83 % or less"
    )
    assert any(warning.startswith(text) for warning in manifest["warnings"])
    assert manifest["diagnostics"]["warnings"] == manifest["warnings"]
    assert "coverage_conformal_95" not in manifest["metrics"]
    with pytest.raises(
        InputError, match=r"5 calibration structures are too few for a 95 % .* ask for 83 % or less"
    ):
        predict_run(short, records[:1], PredictRequest(interval="conformal"))
    assert (
        len(predict_run(short, records[:1], PredictRequest(probability=0.83, interval="conformal")))
        == 1
    )


def test_run_without_held_back_structures_says_how_to_get_conformal_intervals(plain, records):
    manifest = manifest_of(plain)
    assert manifest["conformal"] is None and manifest["n"] == 50
    with pytest.raises(
        ConfigError, match=r"held no structures back\. Transfer again with `--conformal-share 0\.2"
    ):
        predict_run(plain, records[:1], PredictRequest(interval="conformal"))


def test_run_from_before_there_were_conformal_intervals_loads(plain, records, tmp_path):
    old = shutil.copytree(plain, tmp_path / "old")
    manifest = manifest_of(old)
    del manifest["conformal"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    assert load_run(old).conformal is None
    assert len(predict_run(old, records[:2])) == 2


def test_run_with_damaged_scores_is_refused(short, tmp_path):
    broken = shutil.copytree(short, tmp_path / "broken")
    manifest = manifest_of(broken)
    manifest["conformal"]["scores"][0] = None
    (broken / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        ArtifactError, match=r"stored model is missing or damaged .*Make the folder again"
    ):
        load_run(broken)


def test_comparison_gives_the_figures_of_the_run_and_keeps_shares_apart(
    source_folder, records, gaps_eV, tmp_path
):
    run = transfer(source_folder, records, gaps_eV, tmp_path)
    members = open_sources(source_folder).load()
    table = learnable(records, gaps_eV, descriptor=load_run(run).descriptor)
    plan = Comparison({"fine_tune": SETTINGS["fine_tune"]}, (50,), (5,), 10, conformal_share=0.4)
    fits = list(compare(compared_of(members, table), plan, device="cpu"))
    assert [(fit.n, fit.conformal_share) for fit in fits] == [(50, 0.4)] * 3
    metrics = manifest_of(run)["metrics"]
    for name in ("rmse_eV", "coverage_95", "coverage_conformal_95", "width_conformal_95_eV"):
        assert fits[-1].figures[name] == pytest.approx(metrics[name], rel=1e-5)
    assert list(compare(compared_of(members, table), plan, device="cpu", done=fits)) == []
    without = next(
        compare(
            compared_of(members, table), replace(plan, conformal_share=0.0), device="cpu", done=fits
        )
    )
    assert (without.method, without.conformal_share) == (fits[0].method, 0.0)
