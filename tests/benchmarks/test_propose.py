"""The benchmark of proposals: the share in a window, the verdict, and a small run."""

import json
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms

from bandgap.predictions.window import Window
from bandgap.structures import StructureRecord
from benchmarks.__main__ import app
from benchmarks.propose import share_in_window, verdict, xtb_gaps_eV
from tests.commands import run_in_process, use_own_home


def test_molecules_without_a_gap_count_as_outside() -> None:
    gaps = np.array([3.0, 3.2, 3.6, np.nan])
    assert share_in_window(gaps, Window(3.0, 3.5)) == 0.5


def test_verdict_compares_with_draws_from_the_training_set() -> None:
    figures = {"training set": {"share": 0.1}, "network": {"share": 0.3}, "mutation": {"share": 0}}
    assert verdict(figures) == (
        "network: 30.0%, 3.0 times that of training molecules (10.0%); "
        "mutation: 0.0%, 0.0 times that of training molecules (10.0%)."
    )


def test_gap_of_a_radical_is_missing() -> None:
    pytest.importorskip("tblite")
    hydrogen = StructureRecord("h", "", "SMILES", Atoms("H"))
    molecule = StructureRecord("h2", "", "SMILES", Atoms("H2", [[0, 0, 0], [0, 0, 0.74]]))
    gaps = xtb_gaps_eV([hydrogen, molecule])
    assert np.isnan(gaps[0])
    assert gaps[1] > 10


@pytest.mark.slow
def test_small_benchmark_prints_and_writes_both_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tblite")
    use_own_home(tmp_path, monkeypatch)
    file = tmp_path / "propose.json"
    result = run_in_process(app)(
        *("propose", "--n", "300", "--labelled", "40", "--steps", "20", "--generated", "40"),
        *("--count", "5", "--window", "2:6", "--json", file),
    )
    assert result.exit_code == 0, result.output
    figures = json.loads(file.read_text(encoding="utf-8"))
    for name in ("network", "mutation"):
        assert figures[name]["n"] == 5
        assert figures[name]["counts"]["sampled"] == 40
        assert 0 <= figures[name]["share"] <= 1
        assert figures[name]["property_distances"]["rings"] > 0
    assert "draws" in result.stdout
    assert "times that of training molecules" in result.stdout
