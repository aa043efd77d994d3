"""Published data sets: every file gets the verdict that it deserves, in seconds."""

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from bandgap.structures import read_paths

DATA = Path(os.environ.get("BANDGAP_TEST_DATA", ""))
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        "BANDGAP_TEST_DATA" not in os.environ, reason="BANDGAP_TEST_DATA names no folder"
    ),
]


def column(table: Path, name: str) -> list[str]:
    with table.open(newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def test_hybrid_perovskites_are_all_ready_with_their_atoms():
    folder = DATA / "dj_perovskite_hse"
    records = read_paths([folder / "cifs.zip"])
    assert Counter(r.status for r in records) == {"ready": 353}
    table = folder / "dj_perovskite_hse.csv"
    counts = dict(zip(column(table, "id"), map(int, column(table, "n_atoms")), strict=True))
    assert {r.id: r.n_atoms for r in records} == counts
    assert all(r.periodic for r in records)


def test_poscars_are_all_ready_with_their_atoms():
    folder = DATA / "jarvis_poscar_sample"
    records = read_paths([folder / "poscars.zip"])
    assert Counter(r.status for r in records) == {"ready": 40}
    table = folder / "jarvis_poscar_sample.csv"
    counts = dict(zip(column(table, "file"), map(int, column(table, "n_atoms")), strict=True))
    assert {Path(r.file).name: r.n_atoms for r in records} == counts


@pytest.mark.slow
def test_materials_project_crystals_are_ready_but_for_six_without_hydrogen():
    records = read_paths([DATA / "mp_crystals_pbe" / "cifs.zip"])
    assert Counter(r.status for r in records) == {"ready": 2394, "warning": 6}
    assert {r.problem for r in records if r.problems} == {
        "no hydrogen atoms in the file; the model was trained with hydrogens, expect a shift"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "n", "n_without_hydrogen"),
    [
        ("qm9_gap/qm9_gap.extxyz.gz", 16_000, 17),
        ("conjugated_b3lyp/conjugated_b3lyp.extxyz.gz", 3_419, 0),
        ("oe62_gw/oe62_gw.extxyz.gz", 1_911, 6),
        ("omdb_crystal_gap/omdb_crystal_gap_etkdg.extxyz.gz", 2_987, 0),
    ],
)
def test_molecules_are_all_read_with_their_labels(path: str, n: int, n_without_hydrogen: int):
    records = read_paths([DATA / path])
    assert Counter(r.status for r in records) == Counter(
        {"ready": n - n_without_hydrogen, "warning": n_without_hydrogen}
    )
    assert all(isinstance(r.info["gap_eV"], float) for r in records)
    assert len({r.id for r in records}) == n
