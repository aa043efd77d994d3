"""Near-copies: displaced, strained and repeated cells of one structure, and other structures."""

import time
from collections.abc import Callable

import ase
import numpy as np
import pytest
from ase.build import bulk
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.structures import StructureRecord, near_copies
from bandgap.structures.near_copies import (
    NEAR_ANGSTROM,
    NearCopies,
    _is_near_any,
    has_near_copy,
    near_copy_counts,
)
from bandgap.structures.same_crystals import neighbour_distances


def record(atoms: ase.Atoms | None, id: str = "a") -> StructureRecord:
    return StructureRecord(id, "", "", atoms)


def displaced(sd_angstrom: float) -> ase.Atoms:
    atoms = bulk("GaAs", "zincblende", 5.65).repeat((2, 2, 2))
    atoms.positions += sd_angstrom * np.random.default_rng(0).normal(size=atoms.positions.shape)
    return atoms


def strained(share: float) -> ase.Atoms:
    atoms = bulk("GaAs", "zincblende", 5.65)
    atoms.set_cell(atoms.cell.array * (1 + share), scale_atoms=True)
    return atoms


NEAR: dict[str, Callable[[], ase.Atoms]] = {
    "displaced by 0.02 A": lambda: displaced(0.02),
    "displaced by 0.05 A": lambda: displaced(0.05),
    "supercell": lambda: displaced(0.0),
    "strained by 1 %": lambda: strained(0.01),
    "wurtzite, the close polymorph": lambda: bulk("GaAs", "wurtzite", 3.995, 6.524),
}
OTHER: dict[str, Callable[[], ase.Atoms]] = {
    "strained by 10 %": lambda: strained(0.10),
    "rocksalt, another polymorph": lambda: bulk("GaAs", "rocksalt", 5.2),
    "another formula": lambda: bulk("GaP", "zincblende", 5.65),
}


@pytest.mark.parametrize("name", NEAR)
def test_copy_of_a_structure_is_a_near_copy(name: str) -> None:
    reference = [record(bulk("GaAs", "zincblende", 5.65))]
    assert has_near_copy([record(NEAR[name]())], reference).tolist() == [True]


@pytest.mark.parametrize("name", OTHER)
def test_other_structure_is_no_near_copy(name: str) -> None:
    reference = [record(bulk("GaAs", "zincblende", 5.65))]
    assert has_near_copy([record(OTHER[name]())], reference).tolist() == [False]


def test_molecule_and_crystal_of_one_formula_are_no_near_copies() -> None:
    molecule = ase.Atoms("GaAs", positions=[[0, 0, 0], [1.4125, 1.4125, 1.4125]])
    reference = [record(bulk("GaAs", "zincblende", 5.65))]
    assert not has_near_copy([record(molecule)], reference).any()


def test_refused_structure_and_structure_alone_have_no_near_copies() -> None:
    crystal = record(bulk("GaAs", "zincblende", 5.65))
    assert not has_near_copy([record(None), crystal], []).any()
    assert not has_near_copy([record(None)], [crystal]).any()


def test_only_the_named_rows_are_compared() -> None:
    crystals = [bulk("GaAs", "zincblende", 5.65), displaced(0.02), bulk("Si", "diamond", 5.43)]
    copies = NearCopies([record(atoms) for atoms in crystals])
    assert copies.has_near_copy([2, 0], [1]).tolist() == [False, True]
    assert copies.has_near_copy([0], [2]).tolist() == [False]


def test_distances_to_more_atoms_find_the_same_near_copies() -> None:
    records = [record(atoms()) for atoms in [*NEAR.values(), *OTHER.values()]]
    rows = range(len(records))
    of_24_atoms = NearCopies(records, n_nearest=24)
    expected = NearCopies(records).has_near_copy(rows, rows)
    assert of_24_atoms.has_near_copy(rows, rows).tolist() == expected.tolist()
    assert len(expected) > expected.sum() > 2
    for distances, structure in zip(of_24_atoms.distances(), records, strict=True):
        fresh = neighbour_distances(structure, n_quantiles=8, n_nearest=24)
        assert distances.tolist() == fresh.tolist()


def test_structures_of_a_data_set_with_a_near_copy_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crystals = [bulk("GaAs", "zincblende", 5.65), displaced(0.02), bulk("Si", "diamond", 5.43)]
    records = [record(atoms) for atoms in crystals]
    assert near_copy_counts(records) == {"formulas": 2, "near_copies": 2}
    assert near_copy_counts(records[1:]) == {"formulas": 2, "near_copies": 0}
    monkeypatch.setattr(near_copies, "MOST_COMPARED", 1)
    assert near_copy_counts(records) == {"formulas": 2}


def test_thousands_of_structures_of_one_formula_take_seconds() -> None:
    crystals = [record(atoms) for atoms in [strained(0.0), strained(0.01)] * 1000]
    start = time.process_time()
    assert has_near_copy(crystals[:500], crystals[500:]).all()
    assert time.process_time() - start < 10.0


@pytest.mark.parametrize(
    ("rows", "compared_rows"),
    [
        (np.arange(300), np.arange(300)),
        (np.arange(120), np.arange(120, 300)),
        (np.arange(100, 250), np.arange(0, 300, 2)),
        (np.arange(300), np.array([7])),
    ],
    ids=["all with all", "two parts", "parts with common rows", "one reference"],
)
def test_search_for_near_copies_gives_the_result_of_all_pairs(
    rows: NDArray[np.int_], compared_rows: NDArray[np.int_]
) -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(3.0, 0.3, size=(60, 96))
    centres[7] = centres[0]  # one group is large
    vectors = centres[np.arange(300) % 60] + 0.054 * rng.normal(size=(300, 96))
    vectors[290] = vectors[7]
    differences = cdist(vectors, vectors, metric="cityblock") / 96
    np.fill_diagonal(differences, np.inf)
    expected = differences[np.ix_(rows, compared_rows)].min(axis=1) <= NEAR_ANGSTROM
    result = _is_near_any(
        vectors[rows], vectors[compared_rows], rows=rows, compared_rows=compared_rows
    )
    assert 1 <= expected.sum() < len(rows) - 10
    assert result.tolist() == expected.tolist()
