"""Runs on the command line that learn from the user's own table of features."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bandgap.runs.regressor import BandGapRegressor
from bandgap.structures import read_paths
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_baseline_column import rows_of, write_frames, write_table


def write_features(path: Path, rows: list[dict[str, float]]) -> pd.DataFrame:
    """Write the cheap gap, a constant and noise of every water by id."""
    noise = np.random.default_rng(5).normal(size=len(rows))
    frame = pd.DataFrame(
        {"cheap": [row["cheap"] for row in rows], "one": 1.0, "noise": noise},
        index=[f"water-{row['k']:02d}" for row in rows],
    )
    frame.rename_axis("id").to_csv(path)
    return frame


@pytest.mark.parametrize("preset", ["none", None])
def test_own_features_are_learned_predicted_explained_and_refitted(
    run: Run, tmp_path: Path, preset: str | None
) -> None:
    learned, new = rows_of(40, seed=0), rows_of(12, seed=1)
    crystals = write_frames(tmp_path / "a.extxyz", learned)
    new_crystals = write_frames(tmp_path / "b.extxyz", new)
    table = write_table(tmp_path / "gaps.csv", learned, "gap_eV")
    frame = write_features(tmp_path / "f.csv", learned)
    write_features(tmp_path / "new.csv", new[:-2])
    model = tmp_path / "run"
    preset_options = [] if preset is None else ["--preset", preset]
    data = f"--source none --structures {crystals} --labels {table}".split()
    features = ["--features", tmp_path / "f.csv"]
    options = [*data, *features, *preset_options, "--method", "gaussian_process"]

    assert run("transfer", *options, "--n-test", 10, "--out", model).exit_code == 0
    manifest = json.loads((model / "manifest.json").read_text())
    user_features = manifest["descriptor"]["user_features"]
    assert user_features["columns"] == ["cheap", "noise"] and user_features["file"] == "f.csv"
    assert manifest["metrics"]["rmse_eV"] < 0.4  # the gaps have sd 1.4 and hang on the cheap ones

    at = ["--model", model, "--structures", new_crystals, "--features", tmp_path / "new.csv"]
    assert run("predict", *at, "--out", tmp_path / "p.csv").exit_code == 0
    assert run("predict", *at, "--chunk", 2, "--out", tmp_path / "c.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "c.csv").read_text()
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows[-2:]] == ["refused"] * 2
    assert "no own features (cheap, noise, as in f.csv)" in rows[-1]["problem"]
    means = np.array([float(row["mean_eV"]) for row in rows[:-2]])
    np.testing.assert_allclose(means, [row["gap"] for row in new[:-2]], atol=0.8)
    assert run("compute-next", *at, "--out", tmp_path / "next.csv").exit_code == 0
    new_options = ["--new", new_crystals, "--features", tmp_path / "new.csv"]
    assert run("explain", model, *new_options, "--out", tmp_path / "why.csv").exit_code == 0
    assert "own features" in (tmp_path / "why.csv").read_text()
    assert run("refit", model, "--out", tmp_path / "all").exit_code == 0

    regressor = BandGapRegressor("gaussian_process", features=frame, preset=preset, seed=0)
    regressor.fit(read_paths([crystals]), [row["gap"] for row in learned])
    assert regressor.run_.descriptor.user_features.columns == ("cheap", "noise")

    frame.assign(noise=0.5).rename_axis("id").to_csv(tmp_path / "f.csv")
    refused = run("refit", model, "--out", tmp_path / "all")
    assert refused.exit_code == 1 and "not those of the run (f.csv then" in refused.stderr
    frame.drop(columns="noise").rename_axis("id").to_csv(tmp_path / "new.csv")
    refused = run("predict", *at, "--out", tmp_path / "p.csv")
    assert refused.exit_code == 1 and "1 of the 2 columns" in refused.stderr
    assert "missing: noise" in refused.stderr
    refused = run("predict", *at[:-2], "--out", tmp_path / "p.csv")
    assert refused.exit_code == 1 and "learned from 2 own features" in refused.stderr
    refused = run("transfer", *options[2:], "--source", "demo", "--out", tmp_path / "x")
    assert refused.exit_code == 1 and "--features" in refused.stderr
