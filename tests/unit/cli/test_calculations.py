"""`bandgap labels`."""

import os
import sys
from pathlib import Path

import pytest

from bandgap.datasets.labels import match_labels, read_labels
from bandgap.structures import read_paths
from tests.unit.calculations.vasprun_text import vasprun
from tests.unit.cli.conftest import Run


@pytest.fixture
def calculations(tmp_path: Path) -> Path:
    """Folder of an insulator, a metal at another level, and a file that was cut off."""
    texts = {
        "0001": vasprun(),
        "metal": vasprun([[[-1.0, 0.0, -0.5, 2.0]] * 2], settings={"NELECT": 3, "METAGGA": "SCAN"}),
        "broken": vasprun()[:900],
    }
    for name, text in texts.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "vasprun.xml").write_text(text)
    return tmp_path / "runs"


def test_labels_writes_a_table_and_structures_that_match(
    run: Run, calculations: Path, tmp_path: Path
) -> None:
    table = tmp_path / "labels.csv"
    structures = tmp_path / "structures.extxyz"
    result = run("labels", calculations, "--out", table, "--structures", structures)
    assert result.exit_code == 0
    assert "0001: ClNa, 1.5000 eV, direct, PBE" in result.stdout
    assert "metal: ClNa, metal, 0 eV, SCAN; 3 electrons leave a band partly" in result.stdout
    assert "broken: no gap, the file ends early" in result.stdout
    assert "3 calculations: 1 direct gap, 0 indirect gaps, 1 metal, 1 without" in result.stderr
    assert "Levels of theory are mixed (PBE, SCAN)" in result.stderr
    records = read_paths([structures])
    labels = read_labels(table)
    matched = match_labels([r.id for r in records], [r.file for r in records], labels)
    assert [(r.id, gap) for r, gap in zip(records, matched.gaps, strict=True)] == [
        ("0001", 1.5),
        ("metal", 0.0),
    ]
    assert [record.info["gap_eV"] for record in records] == [1.5, 0.0]
    assert labels.level_of_theory == "PBE; SCAN"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_labels_of_a_folder_whose_name_is_not_utf8_are_written(
    run: Run, calculations: Path, tmp_path: Path
) -> None:
    (calculations / "metal").rename(calculations / os.fsdecode(b"caf\xe9"))
    table = tmp_path / "labels.csv"
    result = run("labels", calculations, "--out", table)
    assert result.exit_code == 0
    assert "runs/caf?/vasprun.xml" in table.read_text(encoding="utf-8")
