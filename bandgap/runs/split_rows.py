"""Which rows of a table a run learns from, holds back and is tested on."""

from collections.abc import Collection

import numpy as np

from bandgap.datasets.splits import Rows, Split, grouped_split, hold_back, permuted_split, split_by_test_ids
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
    among: Collection[str] | None = None,
) -> Split:
    """Split by single structures, or by formula; the last share of the training rows is held back.

    With `among` the test rows are drawn among the structures of these ids as if there were no others, so that tables
    which have them all, and others beside them, are tested on the same; training rows are drawn from all that are left.
    Raises InputError when there are too few rows.
    """
    groups = _formulas(table) if by_formula else None
    wanted = None if among is None else set(among)
    chosen = None if wanted is None else [row for row, name in enumerate(table.ids) if name in wanted]
    if chosen is None or len(chosen) == len(table):
        drawn = _drawn(table.ids, groups, n_test=n_test, n_train=n_train, seed=seed)
        return hold_back(drawn, share=conformal_share, groups=groups)
    if n_test > len(chosen):
        raise InputError(
            f"split: {n_test:,} test structures were asked for, but every method can take only {len(chosen):,}. "
            "Ask for fewer, or leave out the methods that cannot take the others."
        )
    rows = np.array(chosen, dtype=np.int64)
    few = _drawn(*_of(table, groups, rows), n_test=n_test, n_train=None, seed=seed) if n_test < len(rows) else None
    test = rows if few is None else rows[few.test]
    others = np.setdiff1d(np.arange(len(table), dtype=np.int64), test)
    learned = _drawn(*_of(table, groups, others), n_test=0, n_train=n_train, seed=seed)
    return hold_back(Split(train=others[learned.train], test=test), share=conformal_share, groups=groups)


def split_on(
    table: Table, *, test_ids: Collection[str], n_train: int | None, seed: int, conformal_share: float = 0.0
) -> Split:
    """Test on the structures of these ids; the seed draws the training rows from the others."""
    return hold_back(split_by_test_ids(table.ids, test_ids=test_ids, n_train=n_train, seed=seed), share=conformal_share)


def _drawn(ids: list[str], groups: list[str] | None, *, n_test: int, n_train: int | None, seed: int) -> Split:
    if groups is None:
        return permuted_split(ids, n_test=n_test, n_train=n_train, seed=seed)
    return grouped_split(ids, groups=groups, n_test=n_test, n_train=n_train, seed=seed)


def _of(table: Table, groups: list[str] | None, rows: Rows) -> tuple[list[str], list[str] | None]:
    ids = table.ids
    return [ids[row] for row in rows], None if groups is None else [groups[row] for row in rows]


def _formulas(table: Table) -> list[str]:
    return [reduced_formula(record.atoms.symbols) for record in table.records if record.atoms is not None]
