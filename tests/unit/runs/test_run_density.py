"""The density of the structures that a run learned from: stored, loaded, refused and left out."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from bandgap.cli import app
from bandgap.datasets.table import elements_of
from bandgap.descriptors import featurize
from bandgap.foundation.errors import ArtifactError, ConfigError
from bandgap.inference.flows import unusualness
from bandgap.jobs.service.models import rows_of, unusual_in
from bandgap.networks.perceptron import hidden_in_double
from bandgap.predictions.table import read_predictions_csv
from bandgap.predictions.unusual_rows import unusual_facts
from bandgap.runs import chunks
from bandgap.runs.chunks import ChunkPlan, predict_chunks, work_of
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from bandgap.runs.run_density import DENSITY, load_density
from bandgap.runs.stored import load_run
from bandgap.sources.stored import load_source
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.commands import run_in_process, use_own_home
from tests.transfers import transfer_labelled
from tests.unit.conftest import World, gaps_of, make_records, record_of

N = 210


@pytest.fixture(scope="module")
def run(world: World, source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """210 molecules with a source network, of which 200 are learned from or held back."""
    records = make_records(N, seed=5, prefix="known")
    return transfer_labelled(
        source_folder,
        records,
        gaps_of(records, seed=6),
        method="last_layer_ridge",
        n=200,
        n_test=10,
        conformal_share=0.1,
        density="flow",
        out=tmp_path_factory.mktemp("run"),
        device="cpu",
    )


def test_manifest_says_how_many_structures_and_dimensions_the_density_has(run: Path) -> None:
    facts = json.loads((run / "manifest.json").read_text())["density"]
    assert facts["n"] == 200 and facts["features"] == "source network"
    assert facts["smallest_p"] == pytest.approx(1 / 201)
    assert 1 <= facts["dimensions"] <= 4  # units of the last hidden layer


def test_features_are_the_inputs_of_the_last_rectified_units(
    run: Path, world: World, source_folder: Path
) -> None:
    density = load_density(run)
    assert density is not None
    raw = featurize(world.records[:5], load_run(run).descriptor).features
    network = load_source(source_folder)
    expected = hidden_in_double(
        {name: value for name, value in network.params.items() if not name.endswith(".3")},
        network.standardiser.features(raw),
    )[-1]
    features = density.features(raw)
    np.testing.assert_allclose(np.maximum(features, 0.0), expected, atol=1e-10)
    assert (features < 0).any()


def test_structure_with_an_unseen_element_is_not_assessable(run: Path, world: World) -> None:
    density = load_run(run).density
    assert density is not None
    raw = featurize(world.records[:3], load_run(run).descriptor).features
    elements = [elements_of(record) for record in world.records[:3]]
    elements[1] = {*elements[1], "Br"}
    p = density.p_values(raw, elements).p
    assert np.isfinite(p).tolist() == [True, False, True]


def test_stretched_molecules_are_more_unusual_than_new_ones(run: Path) -> None:
    density = load_run(run).density
    assert density is not None
    new = make_records(60, seed=8, prefix="new")
    stretched = []
    for record in new:
        atoms = record.atoms.copy()
        atoms.positions *= 1.35
        stretched.append(record_of(record.id, atoms))

    def flagged_share(records: list) -> float:
        raw = featurize(records, load_run(run).descriptor).features
        p = density.p_values(raw, [elements_of(record) for record in records]).p
        return float(np.mean(p <= 0.05))

    assert flagged_share(new) <= 0.15
    assert flagged_share(stretched) >= 0.6


def test_run_with_few_structures_says_how_many_a_density_needs(
    world: World, source_folder: Path, tmp_path: Path
) -> None:
    run = transfer_labelled(
        source_folder,
        world.records,
        world.gaps_eV,
        method="last_layer_ridge",
        n=18,
        n_test=6,
        density="flow",
        out=tmp_path / "run",
        device="cpu",
    )
    facts = json.loads((run / "manifest.json").read_text())["density"]
    assert "18 different structures are too few" in facts["reason"]
    assert f"needs {unusualness.MIN_ROWS}" in facts["reason"]
    assert load_run(run).density is None
    warnings = json.loads((run / "manifest.json").read_text())["warnings"]
    assert [text for text in warnings if "200" in text] == [
        f"Predictions have no p-value of the domain: {facts['reason']}"
    ]


def test_damaged_density_is_named_with_a_remedy(run: Path, tmp_path: Path) -> None:
    (tmp_path / DENSITY).write_bytes((run / DENSITY).read_bytes()[:5_000])
    with pytest.raises(ArtifactError, match="Train the model again"):
        load_density(tmp_path)


def test_predictions_have_the_p_value_whatever_the_chunks_and_processes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training structures are among the predicted ones: their scores are equal to stored ones.

    With chunks of 50 the table is resumed after the second chunk.
    """
    records = [*make_records(N, seed=5, prefix="known"), *make_records(20, seed=8, prefix="new")]
    expected = predict_run(run, records)
    assert expected.domain_p is not None
    p, lowest, highest = expected.domain_p
    assert np.isfinite(p).all() and (lowest <= p).all() and (p <= highest).all()
    monkeypatch.setattr(chunks, "PROCESSES_FROM", 1)
    for n_jobs, first in ((1, 0), (1, 100), (2, 0)):
        plan = ChunkPlan(run, PredictRequest(chunk_size=50, n_jobs=n_jobs))
        predicted = predict_chunks(records, plan, n=len(records), first=first)
        joined = np.concatenate([chunk.predictions.domain_p for chunk in predicted], axis=1)
        np.testing.assert_array_equal(joined, expected.domain_p[:, first:])


def test_held_out_structures_have_a_p_value_in_the_table_of_the_run(run: Path) -> None:
    table = read_predictions_csv(run / "predictions.csv")
    assert len(table) == 10 and table["domain_p"].between(2 / 201, 1.0).all()


def test_work_of_a_prediction_changes_with_the_density(run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    shutil.copytree(run, copied)
    before = work_of(ChunkPlan(copied, PredictRequest()), has_baseline=False)
    (copied / DENSITY).unlink()
    assert work_of(ChunkPlan(copied, PredictRequest()), has_baseline=False) != before
    assert predict_run(copied, make_records(2, seed=8, prefix="new")).domain_p is None


def test_prediction_with_an_unseen_element_names_it_and_has_no_number(run: Path) -> None:
    records = make_records(3, seed=8, prefix="new")
    atoms = records[1].atoms.copy()
    atoms.symbols[-1] = "Br"
    predictions = predict_run(run, [records[0], record_of("bromide", atoms), records[2]])
    assert predictions.domain_p is not None
    assert np.isfinite(predictions.domain_p).all(axis=0).tolist() == [True, False, True]
    row = predictions.to_csv().splitlines()[2]
    assert "Br" in predictions.warning(1) and row.endswith(",,,")


def test_intervals_are_withheld_below_the_requested_p_value_also_in_chunks(run: Path) -> None:
    records = make_records(30, seed=8, prefix="new")
    request = PredictRequest(withhold_below_p=0.5, chunk_size=7)
    expected = predict_run(run, records, request)
    assert expected.domain_p is not None
    is_withheld = expected.domain_p[0] < 0.5
    assert 0 < is_withheld.sum() < 30
    np.testing.assert_array_equal(np.isnan(expected.interval(0.95)[0]), is_withheld)
    chunked = predict_chunks(records, ChunkPlan(run, request), n=len(records))
    texts = [text for chunk in chunked for text in chunk.predictions.problem]
    assert texts == list(expected.problem)


def test_intervals_are_widened_below_the_requested_p_value_also_in_chunks(run: Path) -> None:
    records = make_records(30, seed=8, prefix="new")
    plain = predict_run(run, records)
    request = PredictRequest(widen_below_p=0.5, widen_factor=1.5, chunk_size=7)
    widened = predict_run(run, records, request)
    assert plain.domain_p is not None
    factors = np.where(plain.domain_p[0] < 0.5, 1.5, 1.0)
    assert 1.0 < factors.mean() < 1.5
    np.testing.assert_allclose(widened.sd_new_eV, factors * plain.sd_new_eV, rtol=1e-12)
    chunked = predict_chunks(records, ChunkPlan(run, request), n=len(records))
    joined = np.concatenate([chunk.predictions.quantiles_new for chunk in chunked], axis=1)
    np.testing.assert_array_equal(joined, widened.quantiles_new)
    other = PredictRequest(widen_below_p=0.5, widen_factor=2.0)
    works = {
        work_of(ChunkPlan(run, of_work), has_baseline=False)
        for of_work in (request, other, PredictRequest())
    }
    assert len(works) == 3


@pytest.mark.parametrize("option", ["withhold_below_p", "widen_below_p"])
def test_changed_intervals_without_a_density_are_refused_before_any_work(
    run: Path, tmp_path: Path, option: str
) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / DENSITY).unlink()
    with pytest.raises(ConfigError, match=f"{option} is 0.05.*--density flow"):
        predict_run(
            tmp_path / "run",
            make_records(1, seed=8, prefix="new"),
            PredictRequest(**{option: 0.05}),
        )


def test_widening_only_what_is_withheld_is_refused() -> None:
    with pytest.raises(ConfigError, match="so that no interval is widened"):
        PredictRequest(widen_below_p=0.01, withhold_below_p=0.05)
    with pytest.raises(ConfigError, match="widen_factor"):
        PredictRequest(widen_below_p=0.05, widen_factor=1.0)
    with pytest.raises(ConfigError, match="widen_factor is 3, but widen_below_p is 0"):
        PredictRequest(widen_factor=3.0, withhold_below_p=0.05)


@pytest.mark.parametrize("chunk", [512, 4])  # in memory, and as a growing table
def test_command_says_the_coverage_that_remains_and_describes_the_batch(
    run: Path, tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_own_home(tmp_path, monkeypatch)
    records = make_records(30, seed=8, prefix="new")
    (tmp_path / "new.extxyz").write_text("".join(extxyz_blocks(records, [{}] * len(records))))
    out = tmp_path / "table.csv"
    result = run_in_process(app)(
        *("predict", "--model", run, "--structures", tmp_path / "new.extxyz", "--out", out),
        *("--widen-below-p", "0.5", "--widen-factor", "1.5", "--chunk", chunk),
    )
    assert result.exit_code == 0
    assert "Of 10 held-out structures of this run" in result.output
    assert "At a false discovery rate of 10 %" in result.output
    predictions = predict_run(run, records)
    assert predictions.domain_p is not None
    body = json.loads((tmp_path / "table.csv.json").read_text())
    assert body["widen_below_p"] == 0.5 and body["widen_factor"] == 1.5
    expected = unusual_facts(np.round(predictions.domain_p[0], 6), predictions.status)
    assert body["unusual"] == expected and expected["n_assessed"] == 30
    assert unusual_in(rows_of(predictions, level=0.95, kind="prediction")) == expected
    n_widened = int((predictions.domain_p[0] < 0.5).sum())
    assert out.read_text().count("Interval widened 1.5 times: domain_p is below 0.5.") == n_widened
