"""A method of another package by the commands: listed, trained, stored, and used to predict."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import bandgap
from bandgap.structures.formats.xyz import extxyz_blocks
from tests.outside_package import install_outside_package

COMMANDS = """
import json, sys
from bandgap.cli import app
for words in json.loads(sys.argv[1]):
    app(words, standalone_mode=False)
"""
ROOT = Path(__file__).resolve().parents[3]


def test_method_of_another_package_is_listed_trained_and_predicts(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(install_outside_package(tmp_path)),
        "BANDGAP_HOME": str(tmp_path / "home"),
    }

    def commands(*all_words: Sequence[object]) -> str:
        texts = [list(map(str, words)) for words in all_words]
        result = subprocess.run(
            [sys.executable, "-c", COMMANDS, json.dumps(texts)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    crystals = bandgap.load_demo("crystals")
    labelled = tmp_path / "labelled.extxyz"
    gaps = [{"gap_eV": float(gap_eV)} for gap_eV in crystals.gaps_eV[:40]]
    labelled.write_text("".join(extxyz_blocks(crystals.records[:40], gaps)), encoding="utf-8")
    transfer = (
        *("transfer", "--source", "none", "--structures", labelled),
        *("--label", "gap_eV", "--method", "outside_mean", "--set", "shift_eV=1"),
        *("--n", 20, "--n-test", 10, "--out", tmp_path / "run"),
    )
    listed = commands(("transfer", "--list-methods"), transfer)
    assert "outside_mean: Mean of the labels." in listed
    table = tmp_path / "predicted.csv"
    crystal = "data/new_crystals/01_C9H9NS_P-1.cif"
    commands(("predict", "--model", tmp_path / "run", "--structures", crystal, "--out", table))
    with table.open(encoding="utf-8") as lines:
        (row,) = csv.DictReader(lines)
    mean_eV = float(np.mean(crystals.gaps_eV[:40]))
    assert float(row["mean_eV"]) == pytest.approx(mean_eV + 1, abs=0.5)
