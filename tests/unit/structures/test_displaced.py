"""Displaced copies: normal noise of the requested size, which depends on the structure alone."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.structures import Problem, StructureRecord
from bandgap.structures.displaced import displaced


def record_of(identifier, atoms):
    return StructureRecord(identifier, "made.xyz", "XYZ", atoms)


def moves(records, sd_angstrom=0.04, *, seed=0):
    """How far every atom of every record moved, by id, each (n, 3)."""
    copies = displaced(records, sd_angstrom, seed=seed)
    return {
        r.id: c.atoms.positions - r.atoms.positions for r, c in zip(records, copies, strict=True)
    }


@pytest.fixture
def records():
    return [record_of(name, molecule(name)) for name in ("CH4", "C2H6", "C6H6", "CH3OH")]


def test_noise_is_normal_with_the_standard_deviation_asked_for():
    """30,000 coordinates: sd to 2 %, mean to 0.001, 4.6 % beyond two sd; false alarm < 1e-6."""
    atoms = Atoms("C10000", positions=np.random.default_rng(0).uniform(0, 1000, (10000, 3)))
    noise = moves([record_of("big", atoms)])["big"]
    assert noise.std(axis=0) == pytest.approx([0.04] * 3, rel=0.04)
    assert noise.std() == pytest.approx(0.04, rel=0.02)
    assert abs(noise.mean()) < 0.0012
    assert np.mean(np.abs(noise) > 0.08) == pytest.approx(0.0455, abs=0.006)


def test_noise_does_not_depend_on_order_ids_or_other_structures(records):
    ordered = moves(records)
    turned = moves(records[::-1])
    renamed = moves([record_of("other", records[2].atoms)])["other"]
    for name, noise in ordered.items():
        assert (noise == turned[name]).all()
    assert (renamed == ordered["C6H6"]).all()


def test_noise_changes_with_the_seed_and_between_structures(records):
    first = moves(records)
    other = moves(records, seed=1)
    assert all(not np.allclose(first[name], other[name]) for name in first)
    assert not np.allclose(first["C2H6"][:5], first["CH4"])
    assert (
        displaced(records, 0.04, seed=0)[0].content == displaced(records, 0.04, seed=0)[0].content
    )


def test_copies_of_one_seed_are_different(records):
    first, second = (displaced(records, 0.04, seed=0, copy=k) for k in range(2))
    assert all(
        not np.allclose(a.atoms.positions, b.atoms.positions)
        for a, b in zip(first, second, strict=True)
    )


def test_crystal_keeps_its_cell_and_its_periodicity():
    crystal = record_of("salt", bulk("NaCl", "rocksalt", a=5.64, cubic=True))
    (copy,) = displaced([crystal], 0.1, seed=0)
    assert (copy.atoms.cell.array == crystal.atoms.cell.array).all() and copy.atoms.pbc.all()
    assert (copy.atoms.positions != crystal.atoms.positions).all()
    assert (copy.id, copy.file, copy.format) == ("salt", "made.xyz", "XYZ")


def test_refused_structure_stays_refused():
    broken = StructureRecord("broken", "made.xyz", "XYZ", None, (Problem("refused", "no atoms"),))
    assert displaced([broken], 0.04, seed=0) == [broken]
