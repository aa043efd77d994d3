"""The benchmark on structures with an element that the labels lack, on made-up molecules."""

from pathlib import Path

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule
from ase.io import write

from benchmarks import crystals
from benchmarks.crystals import CrystalSet
from benchmarks.unseen_elements import UnseenElementsBenchmark, run_unseen_elements


def molecules() -> list[Atoms]:
    """48 molecules, of which 12 contain sulfur and have smaller gaps."""
    rng = np.random.default_rng(0)
    frames = []
    for i in range(48):
        atoms = molecule("CH3SH" if i % 4 == 0 else ("CH4", "C2H6", "CH3OH")[i % 3])
        atoms.positions += rng.normal(0, 0.05, atoms.positions.shape)
        atoms.info |= {"gap_eV": 5.0 + 0.1 * len(atoms) - 2.0 * (i % 4 == 0)}
        frames.append(atoms)
    return frames


def test_errors_of_molecules_with_a_withheld_element_are_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "made.extxyz", molecules())
    monkeypatch.setitem(crystals.SETS, "made", CrystalSet("made.extxyz", "", "PBE", (20,), 10))
    config = UnseenElementsBenchmark(("kernel_ridge",), n=20, n_test=10, seeds=(0,))
    entries = list(run_unseen_elements("made", tmp_path, config))
    assert [entry["element"] for entry in entries] == ["O", "S"]
    sulfur = entries[1]
    assert sulfur["unseen"]["n"] == sulfur["familiar"]["n"] == 10
    assert sulfur["unseen"]["rmse_eV"] > 2 * sulfur["familiar"]["rmse_eV"]
