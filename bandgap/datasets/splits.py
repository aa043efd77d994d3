"""Split structures into training and test sets, by their ids and a seed only."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of the training and of the test structures, in the order in which they were drawn.

    The rows of `held_back` are labelled, and neither trained nor tested on. They calibrate
    conformal intervals.
    """

    train: Rows
    test: Rows
    held_back: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def permuted_split(
    ids: Sequence[str],
    *,
    n_test: int,
    n_train: int | None,
    seed: int,
    crystals: Sequence[int] | None = None,
) -> Split:
    """Split rows at random.

    The rows are sorted by id as text and permuted by `numpy.random.default_rng(seed)`. The first
    ones are the test rows, the next ones the training rows. The test rows do not depend on
    `n_train`, and a smaller training set is the beginning of a larger one.

    Parameters
    ----------
    ids
        Ids (n,) of the structures.
    n_test, n_train
        Numbers of test and training rows; `n_train` None takes all remaining rows.
    seed
        Seed of the permutation.
    crystals
        Number (n,) of the crystal of every row. Rows of one crystal are on the same side. They
        are drawn together with the first of them, so that without repeated crystals the split is
        that of the single rows. The test set may then be smaller than `n_test`.

    Raises
    ------
    InputError
        If there are too few rows, or none to train on.
    """
    n = len(ids)
    if n_test < 0 or (n_train is not None and n_train < 1):
        raise InputError(f"split: {n_test=}, {n_train=}. Accepted: n_test from 0, n_train from 1.")
    n_required = n_test + (1 if n_train is None else n_train)
    if n_required > n:
        n_train_text = "at least 1" if n_train is None else f"{n_train:,}"
        raise InputError(
            f"split: {n_test:,} test and {n_train_text} training structures were asked for, but"
            f" only {n:,} have a label. Ask for fewer, or label more."
        )
    by_id = np.array(sorted(range(n), key=lambda i: ids[i]), dtype=np.int64)
    permuted_rows = by_id[np.random.default_rng(seed).permutation(n)]
    if crystals is not None and len(set(crystals)) < n:
        return _split_of_crystals(permuted_rows, crystals, n_test=n_test, n_train=n_train)
    end = n if n_train is None else n_test + n_train
    return Split(train=permuted_rows[n_test:end], test=permuted_rows[:n_test])


def _split_of_crystals(
    permuted_rows: Rows, crystals: Sequence[int], *, n_test: int, n_train: int | None
) -> Split:
    """Divide permuted rows without dividing crystals, in the order of their first rows."""
    members: dict[int, list[int]] = {}
    for row in permuted_rows.tolist():
        members.setdefault(crystals[row], []).append(row)
    test: list[int] = []
    train: list[int] = []
    for rows in members.values():
        (test if len(test) + len(rows) <= n_test else train).extend(rows)
    if not train or (n_test and not test):
        n_crystals = len(members)
        copies = (
            "one and the same" if n_crystals == 1 else f"only {n_crystals:,} different structures"
        )
        raise InputError(
            f"split: the {len(permuted_rows):,} structures are {copies} under several ids, which"
            f" cannot be divided into {n_test:,} test structures and others. Ask for another"
            " number, or delete the copies."
        )
    return Split(
        train=np.array(train[:n_train], dtype=np.int64), test=np.array(test, dtype=np.int64)
    )


def grouped_split(
    ids: Sequence[str], *, groups: Sequence[str], n_test: int, n_train: int | None, seed: int
) -> Split:
    """Split rows at random without dividing groups, such as structures of one formula.

    Groups are sorted as text and permuted by `numpy.random.default_rng(seed)`. A group becomes part
    of the test set if all its rows fit into the remainder of `n_test`, so that the test set may be
    smaller than `n_test`. The other groups are the training set.

    Parameters
    ----------
    ids, n_test, n_train, seed
        As in `permuted_split`.
    groups
        Group (n,) of every structure.

    Raises
    ------
    InputError
        If there are too few rows, or if every group is larger than `n_test`.
    """
    if len(groups) != len(ids):
        raise InputError(
            f"split: {len(ids)} structures but {len(groups)} groups: one for each is expected."
        )
    permuted_split(ids, n_test=n_test, n_train=n_train, seed=seed)  # checks the numbers
    members: dict[str, list[int]] = {}
    for i in sorted(range(len(ids)), key=lambda i: ids[i]):
        members.setdefault(groups[i], []).append(i)
    names = sorted(members)
    test: list[int] = []
    train: list[int] = []
    for k in np.random.default_rng(seed).permutation(len(names)):
        rows = members[names[k]]
        (test if len(test) + len(rows) <= n_test else train).extend(rows)
    if n_test and not test:
        smallest = min(len(rows) for rows in members.values())
        raise InputError(
            f"split: the smallest group has {smallest:,} structures, more than the {n_test:,} of"
            " the test set. Ask for a larger test set, or split by single structures."
        )
    end = len(train) if n_train is None else n_train
    return Split(train=np.array(train[:end], dtype=np.int64), test=np.array(test, dtype=np.int64))


def split_by_test_ids(
    ids: Sequence[str],
    *,
    test_ids: Collection[str],
    n_train: int | None,
    seed: int,
    crystals: Sequence[int] | None = None,
) -> Split:
    """Split rows by the ids of the test structures, which are sorted as text.

    Training rows are drawn from the others as in `permuted_split`. Rows of the same crystal as a
    test row are not used. Raises InputError for an unknown id, and if there are too few rows to
    train on.
    """
    test_set = set(test_ids)
    if missing := sorted(test_set - set(ids)):
        raise InputError(
            f"split: {len(missing):,} of the {len(test_set):,} test structures are not among those"
            f" with a label, such as {missing[0]}. Name test structures that are."
        )
    numbers = range(len(ids)) if crystals is None else crystals
    test_crystals = {numbers[row] for row, id in enumerate(ids) if id in test_set}
    other_rows = np.array(
        [row for row, crystal in enumerate(numbers) if crystal not in test_crystals],
        dtype=np.int64,
    )
    split = permuted_split(
        [ids[row] for row in other_rows],
        n_test=0,
        n_train=n_train,
        seed=seed,
        crystals=[numbers[row] for row in other_rows],
    )
    test = sorted((row for row, id in enumerate(ids) if id in test_set), key=lambda row: ids[row])
    return Split(train=other_rows[split.train], test=np.array(test, dtype=np.int64))


def hold_back(split: Split, *, share: float, groups: Sequence[str] | None = None) -> Split:
    """Hold back the last training rows for conformal intervals.

    Parameters
    ----------
    split
        Split without rows that are held back.
    share
        Share in [0, 1) of the training rows, rounded to whole rows.
    groups
        Group of every row of the data. With groups, fewer rows are held back, so that no group is
        divided.

    Raises
    ------
    InputError
        If the share is outside [0, 1), or if no row is held back or left to train on.
    """
    n = split.train.size
    n_held_back = round(share * n) if 0 <= share < 1 else -1
    if share == 0:
        return split
    if groups is not None:
        training_groups = [groups[i] for i in split.train]
        while (
            0 < n_held_back < n
            and training_groups[n - n_held_back - 1] == training_groups[n - n_held_back]
        ):
            n_held_back -= 1
    if not 0 < n_held_back < n:
        raise InputError(
            f"share held back for conformal intervals: {share:g} of {n:,} training structures."
            " Accepted: from 0 to below 1, such as 0.2; at least one structure is held back, and"
            " one is left to train on."
        )
    return replace(
        split, train=split.train[: n - n_held_back], held_back=split.train[n - n_held_back :]
    )
