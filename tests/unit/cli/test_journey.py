"""`bandgap train-source`, `transfer`, `predict` and `evaluate` on waters with made-up gaps."""

import json
import re
from pathlib import Path

import ase.io
import numpy as np
import pytest

from bandgap.predictions.table import COLUMNS, DOMAIN_P, read_predictions_csv
from tests.unit.cli.conftest import Run

FEW_EPOCHS = ("--set", 'training={"max_epochs": 3}')


def test_journey_from_molecules_to_evaluated_predictions(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    model = tmp_path / "run"
    table = tmp_path / "predictions.csv"
    trained = run(
        *f"train-source --structures {folder / 'molecules.extxyz'} --label gap_eV".split(),
        *f"--species H O --device cpu --out {source}".split(),
        *"--level-of-theory PBE0 --licence CC-BY-4.0".split(),
    )
    assert trained.exit_code == 0
    assert "source, licence of the data: CC-BY-4.0" in trained.stdout
    assert (source / "manifest.json").is_file()

    transferred = run(
        *f"transfer --source {source} --structures {folder / 'targets.extxyz'}".split(),
        *"--label gap_eV --level-of-theory PBE --method fine_tune --n 30 --n-test 20".split(),
        *("--out", model),
    )
    assert transferred.exit_code == 0
    assert "RMSE (eV)" in transferred.stdout
    assert "source, level of theory: PBE0" in transferred.stdout
    # all are water
    overlap = (
        "of 50 structures, 0 are in the source data, 50 have a near-copy in them"
        " and 50 contain a bonded unit of the source data"
    )
    assert f"source, overlap with your structures: {overlap}" in transferred.stdout

    inputs = ("--structures", folder / "targets.extxyz", "--structures", folder / "broken.cif")
    structures = tmp_path / "new" / "predicted.extxyz"
    options = f"--model {model} --level 0.9 --out {table} --extxyz {structures}".split()
    predicted = run("predict", *inputs, *options)
    assert predicted.exit_code == 0
    assert f"60 structures with their predictions written to {structures}" in predicted.stdout
    assert "61 structures: 60 ready, 0 with a warning, 1 refused." in predicted.stderr
    assert "broken.cif: " in predicted.stderr
    rows = read_predictions_csv(table)
    assert tuple(rows.columns) == (*COLUMNS, DOMAIN_P)
    assert len(rows) == 61
    assert set(rows["level"]) == {0.9} and set(rows["level_of_theory"]) == {"PBE"}
    assert rows["status"].tolist().count("refused") == 1
    assert np.isfinite(rows["mean_eV"][rows["status"] != "refused"]).all()
    targets, back = (ase.io.read(path, ":") for path in (folder / "targets.extxyz", structures))
    assert [atoms.info["id"] for atoms in back] == rows["id"].tolist()[:60]
    np.testing.assert_allclose(
        [a.positions for a in back], [a.positions for a in targets], atol=1e-8
    )
    columns = {"predicted_gap_eV": "mean_eV", "lower_90_eV": "lower_eV", "upper_90_eV": "upper_eV"}
    for key, column in columns.items():
        values = [atoms.info[key] for atoms in back]
        np.testing.assert_allclose(values, rows[column][:60], atol=2e-6)  # six decimals

    figures = tmp_path / "figures.json"
    command = f"evaluate --predictions {table} --label gap_eV --json {figures}".split()
    evaluated = run(*command, *inputs[:2])
    assert evaluated.exit_code == 0
    assert json.loads(figures.read_text())["n"] == 60


def test_crystals_held_back_give_conformal_intervals_in_the_table(
    run: Run, source_folder: Path, folder: Path, tmp_path: Path
) -> None:
    model = tmp_path / "run"
    table = tmp_path / "predictions.csv"
    data = ("--structures", folder / "targets.extxyz")
    words = "--label gap_eV --method freeze --n 40 --n-test 20 --conformal-share 0.5".split()
    words += FEW_EPOCHS
    done = run("transfer", "--source", source_folder, *data, *words, "--out", model)
    assert done.exit_code == 0
    assert "coverage of the conformal 95 % interval" in done.stdout
    predicted = run("predict", "--model", model, *data, "--interval", "conformal", "--out", table)
    assert predicted.exit_code == 0
    rows = read_predictions_csv(table)
    assert set(rows["interval"]) == {"conformal"}
    middle = (rows["lower_eV"] + rows["upper_eV"]) / 2
    np.testing.assert_allclose(middle, rows["mean_eV"], atol=1e-5)
    evaluated = run("evaluate", "--predictions", table, *data, "--label", "gap_eV")
    assert evaluated.exit_code == 0 and "coverage of the 95 % interval" in evaluated.stdout

    options = f"--model {model} --interval conformal --level 0.99 --out {table}".split()
    refused = run("predict", *data, *options)
    assert refused.exit_code == 1
    assert "20 calibration structures are too few for a 99 % conformal interval" in refused.stderr
    assert "ask for 95 % or less" in refused.stderr


def test_transfer_from_demo_takes_the_source_network_that_is_shipped(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    targets = (
        f"--structures {folder / 'targets.extxyz'} --label gap_eV --n 20 --n-test 10"
    ).split()
    result = run(
        "transfer", "--source", "demo", *targets, "--method", "fine_tune", *FEW_EPOCHS, "--out", out
    )
    assert result.exit_code == 0
    assert "GFN2-xTB" in (out / "manifest.json").read_text()


def test_train_source_with_a_split_tells_the_error_on_the_rest_and_the_time_of_an_epoch(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    words = (
        f"train-source --structures {folder / 'molecules.extxyz'} --label gap_eV --species H O"
    ).split()
    result = run(*words, "--split", "50,12", "--device", "cpu", "--out", tmp_path / "source")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"^test RMSE \(eV\) +\d+\.\d{3}$", result.stdout, re.MULTILINE)
    assert re.search(
        r"^source, error on test structures: \d\.\d\d eV \(RMSE of 18\)$",
        result.stdout,
        re.MULTILINE,
    )
    assert re.search(r"^\d+ epochs, \d+\.\d s each \(median\)$", result.stdout, re.MULTILINE)
    manifest = json.loads((tmp_path / "source" / "manifest.json").read_text())
    assert (manifest["config"]["split"], manifest["card"]["n_structures"]) == ([50, 12], 62)


@pytest.mark.parametrize("word", ["lam", "=1", ""])
def test_setting_without_name_and_value_is_a_usage_error(
    run: Run, folder: Path, tmp_path: Path, word: str
) -> None:
    command = (
        f"transfer --source {tmp_path} --structures {folder / 'targets.extxyz'} --label gap_eV"
    ).split()
    result = run(*command, "--out", tmp_path / "run", "--set", word)
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.stderr


def test_several_sets_train_together_and_a_transfer_chooses_among_them(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    model = tmp_path / "run"
    sets = (f"near={folder / 'molecules.extxyz'}", f"far={folder / 'targets.extxyz'}")
    trained = run(
        "train-sources",
        *sets,
        *(
            "--label gap_eV --species H O --level near=PBE0 --licence far=CC0 "
            f"--hidden 8,4 --steps 60 --out {source} --device cpu"
        ).split(),
    )
    assert trained.exit_code == 0
    assert "near, level of theory: PBE0" in trained.stdout
    assert "far, licence of the data: CC0" in trained.stdout
    assert (
        "far, displaced copies: of every structure one for each network, coordinates "
        "changed by 0.04 angstrom" in trained.stdout
    )
    targets = (
        f"--structures {folder / 'targets.extxyz'} --label gap_eV --n 20 --n-test 10"
    ).split()
    done = run(
        "transfer",
        "--source",
        source,
        *targets,
        *f"--method fine_tune --head near --out {model}".split(),
    )
    assert done.exit_code == 0
    assert json.loads((model / "manifest.json").read_text())["source"]["head"] == "near"


def test_compare_prints_a_table_of_methods_and_resumes(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "compared"
    command = [
        *(
            f"compare --source demo --structures {folder / 'targets.extxyz'} --label gap_eV "
            "--method fine_tune --set"
        ).split(),
        'fine_tune.training={"max_epochs": 3}',
        *f"--n 20 --n-test 10 --out {out} --device cpu".split(),
    ]
    first = run(*command, "--seeds", "1")
    assert first.exit_code == 0
    assert "RMSE (eV), mean over 1 splits" in first.stdout and "fine_tune" in first.stdout
    again = run(*command, "--seeds", "2")
    assert again.exit_code == 0
    assert "mean over 2 splits +- standard error" in again.stdout
    lines = (out / "fits.jsonl").read_text().splitlines()
    assert len(lines) == 6  # two rows without a fit and one method, two seeds, none of them twice
    assert "conformal" not in again.stdout
    wild = (
        "--method",
        "ensemble",
        "--set",
        'ensemble.training={"learning_rate": 1e30}',
        "--seeds",
        "1",
    )
    failed = run(*command, *wild)
    assert failed.exit_code == 0 and "Not fitted: ensemble, n = 20, seed 0" in failed.stderr
    assert "Take a smaller learning_rate" in failed.stderr and "fine_tune" in failed.stdout
    held_back = run(*command, "--seeds", "1", "--n", "38", "--conformal-share", "0.6")
    assert held_back.exit_code == 0
    assert "coverage of the conformal 95 % interval, mean over 1 splits" in held_back.stdout
