"""Hints on the synthesis of molecules."""

import sys

import numpy as np
import pytest

from bandgap.proposals.synthesis import accessibility_scores, structural_alerts

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
CUBANE = "C12C3C4C1C5C2C3C45"


def test_common_molecules_are_easier_to_make_than_cages() -> None:
    """Aspirin has 1.58 where the score is described for RDKit."""
    aspirin, cubane = accessibility_scores([ASPIRIN, CUBANE])
    assert aspirin == pytest.approx(1.58, abs=0.01)
    assert 3 < cubane < 10


def test_scores_are_missing_where_rdkit_has_no_scorer(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = "rdkit.Contrib.SA_Score.sascorer"
    monkeypatch.setitem(sys.modules, scorer, None)  # importing it raises ImportError
    assert np.isnan(accessibility_scores([ASPIRIN, CUBANE])).all()


def test_alerting_groups_are_named() -> None:
    toluene, azide = structural_alerts(["Cc1ccccc1", "CN=[N+]=[N-]"])
    assert toluene == ""
    assert "azido_group" in azide.lower().split("; ")
