"""The p-value of the domain in predictions of a run, and the intervals that it changes."""

import json
from pathlib import Path

import numpy as np
import pytest

from bandgap.cli import app
from bandgap.foundation.errors import ConfigError
from bandgap.jobs.service.models import rows_of
from bandgap.predictions.table import read_predictions_csv
from bandgap.runs import chunks
from bandgap.runs.chunks import ChunkPlan, predict_chunks, work_of
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.commands import run_in_process, use_own_home
from tests.transfers import transfer_labelled
from tests.unit.conftest import World, gaps_of, make_records, record_of

N = 70


@pytest.fixture(scope="module")
def run(world: World, source_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """70 molecules with a source network, of which 60 are learned from or held back."""
    records = make_records(N, seed=5, prefix="known")
    return transfer_labelled(
        source_folder,
        records,
        gaps_of(records, seed=6),
        method="last_layer_ridge",
        n=60,
        n_test=10,
        conformal_share=0.1,
        out=tmp_path_factory.mktemp("run"),
        device="cpu",
    )


def test_stretched_molecules_are_more_unusual_than_new_ones(run: Path) -> None:
    new = make_records(60, seed=8, prefix="new")
    stretched = []
    for record in new:
        atoms = record.atoms.copy()
        atoms.positions *= 1.35
        stretched.append(record_of(record.id, atoms))

    def flagged_share(records: list) -> float:
        p = predict_run(run, records).domain_p
        assert p is not None
        return float(np.mean(p <= 0.05))

    assert flagged_share(new) <= 0.15
    assert flagged_share(stretched) >= 0.6


def test_predictions_have_the_p_value_whatever_the_chunks_and_processes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With chunks of 25 the table is resumed after the second chunk."""
    records = [*make_records(N, seed=5, prefix="known"), *make_records(20, seed=8, prefix="new")]
    expected = predict_run(run, records)
    assert expected.domain_p is not None
    assert np.isfinite(expected.domain_p).all()
    monkeypatch.setattr(chunks, "PROCESSES_FROM", 1)
    for n_jobs, first in ((1, 0), (1, 50), (2, 0)):
        plan = ChunkPlan(run, PredictRequest(chunk_size=25, n_jobs=n_jobs))
        predicted = predict_chunks(records, plan, n=len(records), first=first)
        joined = np.concatenate([chunk.predictions.domain_p for chunk in predicted])
        np.testing.assert_array_equal(joined, expected.domain_p[first:])


def test_held_out_structures_have_a_p_value_in_the_table_of_the_run(run: Path) -> None:
    table = read_predictions_csv(run / "predictions.csv")
    assert len(table) == 10 and table["domain_p"].between(1 / 61, 1.0).all()


def test_prediction_with_an_unseen_element_names_it_and_has_no_number(run: Path) -> None:
    records = make_records(3, seed=8, prefix="new")
    atoms = records[1].atoms.copy()
    atoms.symbols[-1] = "Br"
    predictions = predict_run(run, [records[0], record_of("bromide", atoms), records[2]])
    assert predictions.domain_p is not None
    assert np.isfinite(predictions.domain_p).tolist() == [True, False, True]
    row = predictions.to_csv().splitlines()[2]
    assert "Br" in predictions.warning(1) and row.endswith(",")


def test_intervals_are_withheld_below_the_requested_p_value_also_in_chunks(run: Path) -> None:
    records = make_records(30, seed=8, prefix="new")
    request = PredictRequest(withhold_below_p=0.5, chunk_size=7)
    expected = predict_run(run, records, request)
    assert expected.domain_p is not None
    is_withheld = expected.domain_p < 0.5
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
    factors = np.where(plain.domain_p < 0.5, 1.5, 1.0)
    assert 1.0 < factors.mean() < 1.5
    np.testing.assert_allclose(widened.sd_new_eV, factors * plain.sd_new_eV, rtol=1e-12)
    chunked = predict_chunks(records, ChunkPlan(run, request), n=len(records))
    joined = np.concatenate([chunk.predictions.quantiles_new for chunk in chunked], axis=1)
    np.testing.assert_allclose(joined, widened.quantiles_new, atol=1e-6)
    other = PredictRequest(widen_below_p=0.5, widen_factor=2.0)
    works = {
        work_of(ChunkPlan(run, of_work), has_baseline=False)
        for of_work in (request, other, PredictRequest())
    }
    assert len(works) == 3


def test_widening_only_what_is_withheld_is_refused() -> None:
    with pytest.raises(ConfigError, match="so that no interval is widened"):
        PredictRequest(widen_below_p=0.01, withhold_below_p=0.05)
    with pytest.raises(ConfigError, match="widen_factor"):
        PredictRequest(widen_below_p=0.05, widen_factor=1.0)
    with pytest.raises(ConfigError, match="widen_factor is 3, but widen_below_p is 0"):
        PredictRequest(widen_factor=3.0, withhold_below_p=0.05)


@pytest.mark.parametrize("chunk", [512, 4])  # in memory, and as a growing table
def test_command_says_the_coverage_that_remains_and_describes_the_table(
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
    assert "of the held-out structures of this run contain the gap of" in result.output
    predictions = predict_run(run, records)
    assert predictions.domain_p is not None
    body = json.loads((tmp_path / "table.csv.json").read_text())
    assert body["widen_below_p"] == 0.5 and body["widen_factor"] == 1.5
    rows = rows_of(predictions, level=0.95, kind="prediction")
    assert [row["domain_p"] for row in rows] == np.round(predictions.domain_p, 6).tolist()
    n_widened = int((predictions.domain_p < 0.5).sum())
    assert out.read_text().count("Interval widened 1.5 times: domain_p is below 0.5.") == n_widened
