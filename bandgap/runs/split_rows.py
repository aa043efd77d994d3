"""The split of a table into training, held-back and test rows."""

from collections.abc import Collection

import numpy as np

from bandgap.datasets.splits import (
    Rows,
    Split,
    grouped_split,
    hold_back,
    permuted_split,
    split_by_test_ids,
)
from bandgap.datasets.table import Table
from bandgap.foundation.errors import InputError
from bandgap.structures.formula import reduced_formula


def split_of(
    table: Table,
    *,
    n_test: int,
    n_train: int | None,
    seed: int,
    conformal_share: float = 0.0,
    by_formula: bool = False,
    test_candidates: Collection[str] | None = None,
) -> Split:
    """Split a table by single structures or by formula.

    Parameters
    ----------
    table
        Labelled rows.
    n_test
        Number of test rows.
    n_train
        Number of training rows. Default: all others.
    seed
        Seed of the permutation.
    conformal_share
        Share of the training rows, the last ones, that is held back.
    by_formula
        Whether all structures of one formula are on the same side of the split.
    test_candidates
        Identifiers from which the test rows are drawn, independently of the other rows: every table
        that contains these structures then has the same test rows. Training rows are drawn from all
        other rows. Default: all.

    Raises
    ------
    InputError
        When there are too few rows.
    """
    groups = _formulas(table) if by_formula else None
    candidate_ids = None if test_candidates is None else set(test_candidates)
    candidates = (
        None
        if candidate_ids is None
        else [row for row, id_ in enumerate(table.ids) if id_ in candidate_ids]
    )
    if candidates is None or len(candidates) == len(table):
        split = _split_ids(table.ids, groups, n_test=n_test, n_train=n_train, seed=seed)
        return hold_back(split, share=conformal_share, groups=groups)
    if n_test > len(candidates):
        raise InputError(
            f"split: {n_test:,} test structures were asked for, but every method can take only "
            f"{len(candidates):,}. Ask for fewer, or leave out the methods that cannot take the "
            "others."
        )
    test = np.array(candidates, dtype=np.int64)
    if n_test < len(test):
        ids, test_groups = _ids_and_groups(table, groups, test)
        test = test[_split_ids(ids, test_groups, n_test=n_test, n_train=None, seed=seed).test]
    other_rows = np.setdiff1d(np.arange(len(table), dtype=np.int64), test)
    ids, other_groups = _ids_and_groups(table, groups, other_rows)
    train = other_rows[_split_ids(ids, other_groups, n_test=0, n_train=n_train, seed=seed).train]
    return hold_back(Split(train=train, test=test), share=conformal_share, groups=groups)


def split_on(
    table: Table,
    *,
    test_ids: Collection[str],
    n_train: int | None,
    seed: int,
    conformal_share: float = 0.0,
) -> Split:
    """Split a table with the given test structures.

    The seed draws the training rows from the others.
    """
    split = split_by_test_ids(table.ids, test_ids=test_ids, n_train=n_train, seed=seed)
    return hold_back(split, share=conformal_share)


def _split_ids(
    ids: list[str], groups: list[str] | None, *, n_test: int, n_train: int | None, seed: int
) -> Split:
    if groups is None:
        return permuted_split(ids, n_test=n_test, n_train=n_train, seed=seed)
    return grouped_split(ids, groups=groups, n_test=n_test, n_train=n_train, seed=seed)


def _ids_and_groups(
    table: Table, groups: list[str] | None, rows: Rows
) -> tuple[list[str], list[str] | None]:
    ids = table.ids
    return [ids[row] for row in rows], None if groups is None else [groups[row] for row in rows]


def _formulas(table: Table) -> list[str]:
    return [
        reduced_formula(record.atoms.symbols)
        for record in table.records
        if record.atoms is not None
    ]
