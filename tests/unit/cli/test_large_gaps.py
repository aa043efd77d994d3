"""Gaps above 20 eV are accepted and named when labels are read."""

from pathlib import Path

import numpy as np
import pytest

from bandgap.cli.inputs import LabelChoice, load_gaps
from bandgap.datasets.gaps import large_gaps_warning
from bandgap.structures import StructureRecord


def test_warning_names_the_first_five_and_counts_all() -> None:
    ids = [f"s{k}" for k in range(8)]
    text = large_gaps_warning(ids, np.array([1.0, *[30.0 + k for k in range(7)]]))
    assert text.startswith("7 gaps are above 20 eV: s1 (30 eV), s2 (31 eV)")
    assert "s5 (34 eV) and 2 more." in text


def test_large_gap_of_an_extxyz_key_is_named_on_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gaps_eV = {"Si": 1.1, "Xe": 26.8}
    records = [StructureRecord(id, "", "", None, info={"gap_eV": g}) for id, g in gaps_eV.items()]
    gaps, _ = load_gaps(records, LabelChoice("gap_eV", None))
    assert gaps.tolist() == [1.1, 26.8]
    reported = " ".join(capsys.readouterr().err.split())
    assert "Warning: 1 gap is above 20 eV: Xe (26.8 eV)." in reported
