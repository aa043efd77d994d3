"""Near-copies across a split are named by `transfer` and `compare`, and `--by-formula` ends them.

`301_rattled_copies.extxyz` has five displaced copies of each of twelve crystals.
"""

import json
import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

pytestmark = pytest.mark.skipif(
    "BANDGAP_TEST_DATA" not in os.environ, reason="needs the folder of test data"
)
WORDS = "--source none --method gaussian_process --n 30 --n-test 20 --label gap_eV --device cpu"


def rattled() -> tuple[str, ...]:
    path = Path(os.environ["BANDGAP_TEST_DATA"]) / "field_cases" / "301_rattled_copies.extxyz"
    return ("--structures", str(path), *WORDS.split())


def test_transfer_warns_of_displaced_copies_unless_formulas_stay_together(
    run: Run, tmp_path: Path
) -> None:
    divided = run("transfer", *rattled(), "--out", tmp_path / "divided")
    warning = "20 of 20 test structures have a near-copy among the structures learned from"
    assert warning in " ".join(divided.stderr.split())
    manifest = json.loads((tmp_path / "divided" / "manifest.json").read_text())
    assert manifest["metrics"]["rmse_eV"] < 0.03
    assert any(text.startswith(warning) for text in manifest["warnings"])
    grouped = run("transfer", *rattled(), "--by-formula", "--out", tmp_path / "grouped")
    assert "near-copy" not in grouped.stdout + grouped.stderr
    manifest = json.loads((tmp_path / "grouped" / "manifest.json").read_text())
    assert manifest["metrics"]["rmse_eV"] > 0.8
    assert manifest["tested"]["n_near_copies"] == 0


def test_train_sources_warns_of_displaced_copies_in_every_set(run: Run, tmp_path: Path) -> None:
    path = rattled()[1]
    species = "Al,As,Br,Cd,Cl,F,Ga,In,K,Li,Mg,Na,O,P,S,Te,Zn"
    words = f"--label gap_eV --species {species} --steps 3 --hidden 8,4 --members 2 --device cpu"
    out = ("--out", tmp_path / "source", "--displacement", "0")
    trained = run("train-sources", f"one={path}", f"two={path}", *words.split(), *out)
    assert trained.exit_code == 0, trained.output
    tested = json.loads((tmp_path / "source" / "manifest.json").read_text())["tested"]
    for name in ("one", "two"):
        n = tested[name]["n"]
        assert tested[name]["n_near_copies"] == n > 0
        warning = f"Warning: {name}: {n} of {n} test structures have a near-copy"
        assert warning in " ".join(trained.stderr.split())
