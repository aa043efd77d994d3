"""Splits of tables with several ids for one crystal."""

import ase
import numpy as np
import pytest

from bandgap.datasets.table import Table
from bandgap.runs.split_rows import split_of, split_on
from bandgap.structures import StructureRecord


@pytest.fixture
def table() -> Table:
    """Table of 20 crystals, each under two ids."""
    records = []
    for k in range(20):
        atoms = ase.Atoms(
            "NaCl", positions=[[0, 0, 0], [2 + 0.02 * k, 2, 2]], cell=[5, 5, 5], pbc=True
        )
        records += [StructureRecord(f"{k}{name}", "", "", atoms) for name in "ab"]
    return Table(records, np.zeros((40, 1), dtype=np.float32), np.zeros(40))


@pytest.mark.parametrize("among", [None, [f"{k}a" for k in range(20)]], ids=["all", "candidates"])
def test_copies_are_on_one_side_of_training_calibration_and_test_rows(table, among) -> None:
    split = split_of(
        table, n_test=9, n_train=None, seed=1, conformal_share=0.3, test_candidates=among
    )
    sides = [
        {table.crystals[row] for row in rows} for rows in (split.train, split.held_back, split.test)
    ]
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides)) == 20


def test_copies_of_named_test_structures_are_left_out_of_training(table) -> None:
    split = split_on(table, test_ids=["3a"], n_train=None, seed=0, conformal_share=0.3)
    assert [table.ids[row] for row in split.test] == ["3a"]
    used = {table.ids[row] for rows in (split.train, split.held_back) for row in rows}
    assert used == set(table.ids) - {"3a", "3b"}
    assert not {table.crystals[i] for i in split.train} & {
        table.crystals[i] for i in split.held_back
    }


def test_number_of_copies_is_in_the_facts_of_the_manifest(table) -> None:
    assert table.facts(n_given=40)["data"]["n_copies"] == 20
    assert "n_copies" not in table.rows(np.arange(0, 40, 2)).facts(n_given=40)["data"]
