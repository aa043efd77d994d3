"""The same structure under several ids."""

import time
import tracemalloc
from pathlib import Path

import ase
import numpy as np
import pytest

from bandgap.structures import StructureRecord, read_paths
from bandgap.structures.same_crystals import (
    _groups,
    copies_sentence,
    crystal_groups,
    with_copies_named,
)


def crystal(seed: int = 0, n: int = 6) -> ase.Atoms:
    """Return a made-up triclinic crystal."""
    rng = np.random.default_rng(seed)
    cell = np.diag([6.0, 7.0, 8.0]) + 0.3 * rng.normal(size=(3, 3))
    symbols = ["Ga", "As", "O"] * (n // 3)
    return ase.Atoms(symbols, scaled_positions=rng.random((n, 3)), cell=cell, pbc=True)


def groups_of(*structures: ase.Atoms) -> list[int]:
    """Return the groups of structures."""
    records = [StructureRecord(str(i), "", "", atoms) for i, atoms in enumerate(structures)]
    return [int(row) for row in crystal_groups(records)]


def reordered(atoms: ase.Atoms) -> ase.Atoms:
    return atoms[[3, 0, 5, 1, 4, 2]]


def with_other_origin(atoms: ase.Atoms) -> ase.Atoms:
    moved = atoms.copy()
    moved.translate([1.3, -2.2, 0.7])
    moved.wrap()
    return moved


def rotated(atoms: ase.Atoms) -> ase.Atoms:
    turned = atoms.copy()
    turned.rotate(37, (1, 2, 3), rotate_cell=True)
    return turned


def rounded(atoms: ase.Atoms) -> ase.Atoms:
    return ase.Atoms(
        atoms.symbols,
        scaled_positions=atoms.get_scaled_positions().round(4),
        cell=atoms.cell.array.round(3),
        pbc=True,
    )


def doubled(atoms: ase.Atoms) -> ase.Atoms:
    return atoms.repeat((1, 2, 1))


def with_other_vectors(atoms: ase.Atoms) -> ase.Atoms:
    cell = atoms.cell.array.copy()
    cell[2] += cell[0] - cell[1]
    return ase.Atoms(atoms.symbols, positions=atoms.positions, cell=cell, pbc=True)


@pytest.mark.parametrize(
    "change",
    [reordered, with_other_origin, rotated, rounded, doubled, with_other_vectors],
    ids=lambda change: change.__name__,
)
def test_another_listing_of_a_crystal_is_the_same(change) -> None:
    assert groups_of(crystal(1), crystal(), change(crystal())) == [0, 1, 1]


def test_crystals_that_differ_by_a_displaced_atom_are_different() -> None:
    displaced = crystal()
    displaced.positions[2] += [0.03, 0.0, 0.0]
    assert groups_of(crystal(), displaced) == [0, 1]


def test_crystals_with_exchanged_elements_are_different() -> None:
    exchanged = crystal()
    exchanged.symbols[[0, 1]] = ["As", "Ga"]
    assert groups_of(crystal(), exchanged) == [0, 1]


def test_molecules_are_compared_without_a_cell() -> None:
    water = ase.Atoms("OHH", positions=[[0, 0, 0], [0.76, 0, 0.5], [-0.76, 0, 0.5]])
    other = water.copy()
    other.positions[1, 0] = 0.8
    assert groups_of(water, rotated(water), other, ase.Atoms("O")) == [0, 0, 2, 3]


def test_refused_structures_have_no_copies() -> None:
    records = [StructureRecord(str(i), "", "", None) for i in range(2)]
    assert crystal_groups(records).tolist() == [0, 1]


def test_copies_have_a_warning_and_are_named_together() -> None:
    records = [
        StructureRecord(id, "", "", atoms)
        for id, atoms in [("a", crystal()), ("b", crystal(1)), ("c", reordered(crystal()))]
    ]
    groups = crystal_groups(records)
    assert [r.problem for r in with_copies_named(records, groups)] == [
        "",
        "",
        "the same structure as a, under another id",
    ]
    sentence = copies_sentence(["a", "b", "c"], groups)
    assert "2 structures are one and the same, under several ids: a = c." in sentence
    assert copies_sentence(["a", "b"], crystal_groups(records[:2])) == ""


@pytest.mark.data
def test_each_crystal_of_the_file_is_found_twice(test_data: Path) -> None:
    records = read_paths([test_data / "field_cases" / "213_same_crystal_twice.extxyz"])
    assert crystal_groups(records).tolist() == [k - k % 2 for k in range(len(records))]


def test_many_copies_of_one_crystal_are_grouped_without_a_list_of_all_pairs() -> None:
    """5,000 copies have 12 million pairs."""
    rng = np.random.default_rng(0)
    vectors = list(3.0 + 1e-4 * rng.random((5_000, 2 * 12 * 32)))
    tracemalloc.start()
    start = time.process_time()
    try:
        groups = _groups([*vectors, np.full(2 * 12 * 32, 3.1)])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert groups == [0] * 5_000 + [5_000]
    assert peak_bytes < 200_000_000
    assert time.process_time() - start < 20


def test_copies_that_are_linked_by_another_copy_are_one_group() -> None:
    vectors = [np.full(2 * 12 * 32, 3.0 + 0.002 * k) for k in (2, 0, 1, 5)]
    assert _groups(vectors) == [0, 0, 0, 3]
