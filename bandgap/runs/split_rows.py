"""The split of a table into training, held-back and test rows."""

from collections.abc import Collection, Sequence
from functools import partial

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
    crystals: Sequence[int] | None = None,
) -> Split:
    """Split a table by single structures or by formula.

    Rows of one crystal under several ids are on the same side.

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
    crystals
        Number (n,) of the crystal of every row. Default: `table.crystals`.

    Raises
    ------
    InputError
        When there are too few rows.
    """
    numbers = table.crystals if crystals is None else crystals
    groups = _formulas(table) if by_formula else None
    held_together = _groups_to_hold_together(groups, numbers)
    draw = partial(_split_ids, table.ids, groups, numbers, seed=seed)
    candidate_ids = None if test_candidates is None else set(test_candidates)
    candidates = (
        None
        if candidate_ids is None
        else [row for row, id_ in enumerate(table.ids) if id_ in candidate_ids]
    )
    if candidates is None or len(candidates) == len(table):
        split = draw(np.arange(len(table), dtype=np.int64), n_test=n_test, n_train=n_train)
        return hold_back(split, share=conformal_share, groups=held_together)
    if n_test > len(candidates):
        raise InputError(
            f"split: {n_test:,} test structures were asked for, but every method can take only "
            f"{len(candidates):,}. Ask for fewer, or leave out the methods that cannot take the "
            "others."
        )
    test = np.array(candidates, dtype=np.int64)
    if n_test < len(test):
        test = draw(test, n_test=n_test, n_train=None).test
    units: Sequence[str | int] = numbers if groups is None else groups
    test_units = {units[row] for row in test}
    other_rows = np.array(
        [row for row, unit in enumerate(units) if unit not in test_units], dtype=np.int64
    )
    train = draw(other_rows, n_test=0, n_train=n_train).train
    return hold_back(Split(train=train, test=test), share=conformal_share, groups=held_together)


def split_on(
    table: Table,
    *,
    test_ids: Collection[str],
    n_train: int | None,
    seed: int,
    conformal_share: float = 0.0,
) -> Split:
    """Split a table with the given test structures.

    The seed draws the training rows from those of other crystals.
    """
    split = split_by_test_ids(
        table.ids, test_ids=test_ids, n_train=n_train, seed=seed, crystals=table.crystals
    )
    groups = _groups_to_hold_together(None, table.crystals)
    return hold_back(split, share=conformal_share, groups=groups)


def _split_ids(
    ids: Sequence[str],
    groups: Sequence[str] | None,
    crystals: Sequence[int],
    rows: Rows,
    *,
    n_test: int,
    n_train: int | None,
    seed: int,
) -> Split:
    """Split some rows of a table, by groups if there are any."""
    ids_of_rows = [ids[row] for row in rows]
    if groups is None:
        split = permuted_split(
            ids_of_rows,
            n_test=n_test,
            n_train=n_train,
            seed=seed,
            crystals=[crystals[row] for row in rows],
        )
    else:
        split = grouped_split(
            ids_of_rows,
            groups=[groups[row] for row in rows],
            n_test=n_test,
            n_train=n_train,
            seed=seed,
        )
    return Split(train=rows[split.train], test=rows[split.test])


def _groups_to_hold_together(
    groups: list[str] | None, crystals: Sequence[int]
) -> Sequence[str] | None:
    """Return the groups that must not be divided, None if every row is its own."""
    if groups is not None:
        return groups
    return [str(crystal) for crystal in crystals] if len(set(crystals)) < len(crystals) else None


def formula_numbers(table: Table) -> Rows:
    """Return the number (n,) of the formula of every row of a table."""
    return np.unique(_formulas(table), return_inverse=True)[1].astype(np.int64)


def _formulas(table: Table) -> list[str]:
    return [
        reduced_formula(record.atoms.symbols)
        for record in table.records
        if record.atoms is not None
    ]
