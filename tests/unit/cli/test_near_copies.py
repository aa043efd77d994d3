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


def test_compare_warns_of_displaced_copies_and_offers_the_grouping(
    run: Run, tmp_path: Path
) -> None:
    words = ("compare", *rattled(), "--seeds", "2", "--out", tmp_path)
    divided = run(*words)
    reported = " ".join(divided.stderr.split())
    assert "On average 100 % of the test structures of a split have a near-copy" in reported
    assert "`--by-formula`" in reported
    grouped = run(*words, "--by-formula")
    reported = " ".join(grouped.stderr.split())
    assert "near-copy" not in reported
    assert "They were made with another grouping of the split." in reported
    fits = [json.loads(line) for line in (tmp_path / "fits.jsonl").read_text().splitlines()]
    errors = [f["figures"]["rmse_eV"] for f in fits if f["method"] == "gaussian_process"]
    assert max(errors[:2]) < 0.1
    assert min(errors[2:]) > 0.5


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


@pytest.mark.parametrize(("split", "n_tested"), [((), 12), (("--split", "30,10"), 20)])
def test_train_source_warns_of_displaced_copies_as_transfer_does(
    run: Run, tmp_path: Path, split: tuple[str, ...], n_tested: int
) -> None:
    structures = rattled()[:2]
    species = "Al,As,Br,Cd,Cl,F,Ga,In,K,Li,Mg,Na,O,P,S,Te,Zn"
    words = ("--label", "gap_eV", "--species", species, "--max-epochs", "3", *split)
    trained = run("train-source", *structures, *words, "--out", tmp_path / "source")
    assert trained.exit_code == 0, trained.output
    warning = f"{n_tested} of {n_tested} test structures have a near-copy"
    assert warning in " ".join(trained.stderr.split())
    manifest = json.loads((tmp_path / "source" / "manifest.json").read_text())
    assert manifest["tested"]["n"] == manifest["tested"]["n_near_copies"] == n_tested
