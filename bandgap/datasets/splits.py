"""Which structures train, validate and test: fixed by ids and seed alone, whatever order the files came in."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the training and of the test structures, in the order in which they were drawn.

    Those of `held_back` are labelled, but neither learned from nor tested on: conformal intervals rest on them.
    """

    train: Rows
    test: Rows
    held_back: Rows = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def permuted_split(ids: Sequence[str], *, n_test: int, n_train: int | None, seed: int) -> Split:
    """Sort rows by id as text, permute them by `numpy.random.default_rng(seed)`, take test rows first, then training.

    `n_train` None takes all that is left. The same test rows come with every `n_train`, and the first of a larger
    training set are the smaller one. Raises InputError when there are too few rows, or none to train on.
    """
    n = len(ids)
    if n_test < 0 or (n_train is not None and n_train < 1):
        raise InputError(f"split: {n_test=}, {n_train=}. Accepted: n_test from 0, n_train from 1.")
    wanted = n_test + (1 if n_train is None else n_train)
    if wanted > n:
        train = "at least 1" if n_train is None else f"{n_train:,}"
        raise InputError(
            f"split: {n_test:,} test and {train} training structures were asked for, but only {n:,} have a label. "
            "Ask for fewer, or label more."
        )
    by_id = np.array(sorted(range(n), key=lambda i: ids[i]), dtype=np.int64)
    drawn = by_id[np.random.default_rng(seed).permutation(n)]
    end = n if n_train is None else n_test + n_train
    return Split(train=drawn[n_test:end], test=drawn[:n_test])


def grouped_split(ids: Sequence[str], *, groups: Sequence[str], n_test: int, n_train: int | None, seed: int) -> Split:
    """Split as `permuted_split`, but leave no group, such as a formula, on both sides of the test set.

    Groups are sorted as text and permuted by `numpy.random.default_rng(seed)`; a group is tested on if all of its rows
    fit into what is left of `n_test`, so that the test set may be smaller than that. The other groups train, each in
    one piece. Raises InputError when there are too few rows, or when no group is small enough for a test set.
    """
    if len(groups) != len(ids):
        raise InputError(f"split: {len(ids)} structures but {len(groups)} groups: one for each is expected.")
    permuted_split(ids, n_test=n_test, n_train=n_train, seed=seed)  # the same demands on the numbers
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
            f"split: the smallest group has {smallest:,} structures, more than the {n_test:,} of the test set. "
            "Ask for a larger test set, or split by single structures."
        )
    end = len(train) if n_train is None else n_train
    return Split(train=np.array(train[:end], dtype=np.int64), test=np.array(test, dtype=np.int64))


def chosen_split(ids: Sequence[str], *, test_ids: Collection[str], n_train: int | None, seed: int) -> Split:
    """Test on the rows of these ids, in their order by text, and train on others as `permuted_split` draws them.

    Raises InputError for an id that is not there, and when there are too few rows to train on.
    """
    wanted = set(test_ids)
    if missing := sorted(wanted - set(ids)):
        raise InputError(
            f"split: {len(missing):,} of the {len(wanted):,} test structures are not among those with a label, such as "
            f"{missing[0]}. Name test structures that are."
        )
    others = np.array([row for row, id in enumerate(ids) if id not in wanted], dtype=np.int64)
    drawn = permuted_split([ids[row] for row in others], n_test=0, n_train=n_train, seed=seed)
    test = sorted((row for row, id in enumerate(ids) if id in wanted), key=lambda row: ids[row])
    return Split(train=others[drawn.train], test=np.array(test, dtype=np.int64))


def hold_back(split: Split, *, share: float, groups: Sequence[str] | None = None) -> Split:
    """Hold back a share of the training rows, the last that were drawn, rounded to whole rows.

    With `groups`, one for each row of the data, the cut moves to the end of a group; of one group, rows stay training.
    Raises InputError for a share outside [0, 1), and where none would be held back or none be left to train on.
    """
    n = split.train.size
    count = round(share * n) if 0 <= share < 1 else -1
    if share == 0:
        return split
    if groups is not None:
        own = [groups[i] for i in split.train]
        while 0 < count < n and own[n - count - 1] == own[n - count]:
            count -= 1
    if not 0 < count < n:
        raise InputError(
            f"share held back for conformal intervals: {share:g} of {n:,} training structures. Accepted: from 0 to "
            "below 1, such as 0.2; at least one structure is held back, and one is left to train on."
        )
    return replace(split, train=split.train[: n - count], held_back=split.train[n - count :])
