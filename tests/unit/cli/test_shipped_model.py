"""`--model pbe`: gaps and ranks without labels, with what the model says of itself."""

import sys
from pathlib import Path

import pytest
from ase.io import read, write

import bandgap
from bandgap.datasets.demo_files import data_folder
from bandgap.datasets.shipped_models import folder_of_source
from bandgap.predictions.table import read_predictions_csv
from bandgap.storage.manifests import read_manifest
from tests.unit.cli.conftest import Run

CIFS = bandgap.unlabelled_cifs()[:3]
STRUCTURES = [text for path in CIFS for text in ("--structures", str(path))]


def test_predict_with_the_shipped_model_states_level_error_and_next_step(
    run: Run, tmp_path: Path
) -> None:
    table = tmp_path / "gaps.csv"
    predicted = run("predict", "--model", "pbe", *STRUCTURES, "--out", table)
    assert predicted.exit_code == 0, predicted.stderr
    assert "These are PBE gaps." in predicted.stderr
    assert "With 50 labels of your own level of theory" in predicted.stderr
    rows = read_predictions_csv(table)
    assert set(rows["level_of_theory"]) == {"PBE"}
    assert rows["mean_eV"].notna().all()


def test_compute_next_ranks_for_a_window_without_the_potential_and_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chgnet", None)
    out = tmp_path / "next.csv"
    ranked = run("compute-next", "--model", "pbe", *STRUCTURES, "--window", "1:3", "--out", out)
    assert ranked.exit_code == 0, ranked.stderr
    assert "pbe-composition is used" in ranked.stderr
    assert len(out.read_text().splitlines()) == 1 + len(CIFS)


def test_unknown_model_is_refused_with_the_names_of_the_shipped_ones(
    run: Run, tmp_path: Path
) -> None:
    refused = run("predict", "--model", "pbx", *STRUCTURES, "--out", tmp_path / "gaps.csv")
    assert refused.exit_code != 0
    assert "the name of a shipped model: pbe, pbe-composition" in refused.stderr


def test_explain_lists_the_nearest_labels_of_the_shipped_model(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "why.csv"
    explained = run("explain", "pbe", "--new", CIFS[0], "--out", out)
    assert explained.exit_code == 0, explained.stderr
    assert out.read_text().count(",label,mp-") == 5


def test_command_without_the_potential_starts_from_the_model_that_needs_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chgnet", None)
    assert folder_of_source("pbe") == data_folder() / "models" / "pbe-composition"
    crystals = tmp_path / "crystals.extxyz"
    shipped = data_folder() / "inorganic" / "target.extxyz.gz"
    write(crystals, read(shipped, ":20", format="extxyz"), format="extxyz")
    options = ("--structures", crystals, "--label", "gap_eV", "--method", "last_layer_ridge")
    out = tmp_path / "run"
    transferred = run("transfer", "--source", "pbe", *options, "--n", "10", "--out", out)
    assert transferred.exit_code == 0, transferred.stderr
    assert "so pbe-composition is used" in transferred.stderr
    assert read_manifest(out, kind="run")["inputs"]["source"] == "pbe"
