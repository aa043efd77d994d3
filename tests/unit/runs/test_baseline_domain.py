"""The domain of a run with a baseline: whether a new baseline is in the learned range."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.datasets.gaps import labels_from_info
from bandgap.predictions.counting import counts_of, domain_sentence
from bandgap.predictions.domain import Domain, LearnedRange
from bandgap.runs.chunks import ChunkPlan, predict_chunks
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import PredictRequest
from bandgap.runs.stored import load_run
from bandgap.storage.stored_fields import restored_fields, stored_fields
from bandgap.structures import read_paths
from tests.transfers import transfer_labelled
from tests.unit.conftest import World

METHOD = "kernel_ridge"


@pytest.fixture(scope="module")
def run(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transfer_labelled(
        None,
        world.records,
        world.gaps_eV,
        method=METHOD,
        n=18,
        n_test=6,
        baseline_eV=0.65 * world.gaps_eV,
        baseline="gap_pbe_eV",
        out=tmp_path_factory.mktemp("run"),
        device="cpu",
    )


def test_baseline_inside_and_outside_is_told_apart_in_domain_and_status(
    run: Path, world: World
) -> None:
    (learned,) = load_run(run).domain.ranges
    assert learned.name == "gap_pbe_eV"
    middle = 0.5 * (learned.lowest_eV + learned.highest_eV)
    baselines = np.array([middle, 50.0, learned.lowest_eV, learned.highest_eV])
    learned_ids = load_run(run).domain.ids
    common = (
        r for r in world.records if r.id in learned_ids and set(r.atoms.symbols) == {"C", "H"}
    )
    records = [next(common)] * 4
    predictions = predict_run(run, records, baseline_eV=baselines)
    assert [text == "ok" for text in predictions.domain] == [True, False, True, True]
    ends = f"{learned.lowest_eV:.3g} to {learned.highest_eV:.3g} eV of the training set"
    assert predictions.domain[1] == f"Has a gap_pbe_eV of 50 eV, outside the {ends}"
    assert list(predictions.status) == ["warning"] * 4  # the run learned from this crystal
    lower, upper = predictions.interval(0.95, "prediction")
    assert (upper - lower)[1] > 0.5 * (50.0 - learned.highest_eV)
    assert "1 with a baseline or levels outside its range" in domain_sentence(
        counts_of(predictions)
    )


def test_chunks_as_the_page_and_the_command_predict_them_say_the_same(
    run: Path, world: World
) -> None:
    records, baselines = world.records[:4], np.array([50.0, 2.0, -30.0, 3.0])
    all_rows = predict_run(run, records, baseline_eV=baselines)
    parts = list(
        predict_chunks(
            records, ChunkPlan(run, PredictRequest(chunk_size=3)), n=4, baseline_eV=baselines
        )
    )
    assert [text for chunk in parts for text in chunk.predictions.domain] == list(all_rows.domain)


def test_run_stored_before_ranges_were_is_loaded_and_predicts(run: Path, world: World) -> None:
    domain = load_run(run).domain
    arrays, plain = stored_fields(domain)
    assert restored_fields(Domain, arrays, plain).ranges == domain.ranges
    del plain["ranges"]
    assert restored_fields(Domain, arrays, plain).ranges == ()


@pytest.mark.parametrize("method", ["feature_gp", "fine_tune"])
def test_gap_of_electron_levels_has_a_range_too(
    method: str, source_folder: Path, world: World, tmp_path: Path
) -> None:
    """Whether the method learns from all levels or takes their gap as its baseline."""
    pytest.importorskip("tblite")
    settings = {"draws": 8, "proposals": 50} if method == "feature_gp" else {}
    folder = transfer_labelled(
        source_folder,
        world.records,
        world.gaps_eV,
        method=method,
        levels="GFN1-xTB",
        n=14,
        n_test=6,
        settings=settings,
        out=tmp_path,
        device="cpu",
    )
    (learned,) = load_run(folder).domain.ranges
    assert isinstance(learned, LearnedRange) and learned.name == "GFN1-xTB gap"
    assert 0.0 < learned.lowest_eV < learned.highest_eV < 30.0


@pytest.mark.data
def test_field_case_of_50_eV_is_not_answered_with_confidence(
    test_data: Path, tmp_path: Path
) -> None:
    cases = test_data / "field_cases"
    learned, new = (
        read_paths([cases / f"303_baseline_{name}.extxyz"]) for name in ("learn", "50_eV")
    )
    folder = transfer_labelled(
        None,
        learned,
        labels_from_info(learned, "gap_eV"),
        method="stacking",
        n=40,
        n_test=0,
        baseline_eV=labels_from_info(learned, "gap_pbe_eV"),
        baseline="gap_pbe_eV",
        out=tmp_path,
        device="cpu",
    )
    predictions = predict_run(folder, new, baseline_eV=labels_from_info(new, "gap_pbe_eV"))
    assert all("Has a gap_pbe_eV of 50 eV, outside the" in text for text in predictions.domain)
    assert set(predictions.status) == {"warning"} and (predictions.sd_new_eV > 10.0).all()
