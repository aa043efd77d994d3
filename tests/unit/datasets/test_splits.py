"""Splits depend on ids and seed alone, never overlap, and say when there are too few rows."""

import numpy as np
import pytest

from bandgap.datasets.splits import grouped_split, hold_back, permuted_split, split_by_test_ids
from bandgap.foundation.errors import InputError

IDS = [f"crystal{i}" for i in range(30)]


def test_permuted_split_is_the_published_recipe():
    split = permuted_split(IDS, n_test=7, n_train=11, seed=2)
    expected = np.array(sorted(IDS))[np.random.default_rng(2).permutation(30)]
    assert [IDS[i] for i in split.test] == list(expected[:7])
    assert [IDS[i] for i in split.train] == list(expected[7:18])


def test_permuted_split_ids_sort_as_text():
    split = permuted_split(["9", "10", "00011"], n_test=0, n_train=None, seed=0)
    order = np.random.default_rng(0).permutation(3)
    assert [["00011", "10", "9"][i] for i in order] == [
        ["9", "10", "00011"][i] for i in split.train
    ]


def test_permuted_split_input_in_another_order_gives_the_same_ids():
    shuffled = list(reversed(IDS))
    one, other = (permuted_split(ids, n_test=7, n_train=11, seed=4) for ids in (IDS, shuffled))
    assert [IDS[i] for i in one.train] == [shuffled[i] for i in other.train]
    assert [IDS[i] for i in one.test] == [shuffled[i] for i in other.test]


def test_permuted_split_more_training_keeps_the_test_rows():
    small, large = (permuted_split(IDS, n_test=7, n_train=n, seed=0) for n in (5, None))
    np.testing.assert_array_equal(small.test, large.test)
    np.testing.assert_array_equal(small.train, large.train[:5])
    assert sorted([*large.train, *large.test]) == list(range(30))


def test_hold_back_takes_the_rows_that_were_drawn_last():
    split = permuted_split([f"{i:02d}" for i in range(30)], n_test=5, n_train=20, seed=3)
    with_held_back = hold_back(split, share=0.15)
    assert np.array_equal(
        np.concatenate([with_held_back.train, with_held_back.held_back]), split.train
    )
    assert (with_held_back.train.size, with_held_back.held_back.size) == (17, 3)
    assert np.array_equal(with_held_back.test, split.test)
    assert hold_back(split, share=0.0).held_back.size == 0


# Groups of 3 and 4.
FORMULAS = [f"formula{i % 9}" for i in range(30)]


def test_grouped_split_leaves_no_group_on_both_sides():
    split = grouped_split(IDS, groups=FORMULAS, n_test=10, n_train=None, seed=3)
    sides = [{FORMULAS[i] for i in rows} for rows in (split.test, split.train)]
    assert not sides[0] & sides[1]
    assert 10 - 3 < split.test.size <= 10
    assert sorted([*split.train, *split.test]) == list(range(30))


def test_grouped_split_input_in_another_order_gives_the_same_ids():
    other = list(reversed(range(30)))
    ids = [IDS[i] for i in other]
    groups = [FORMULAS[i] for i in other]
    one = grouped_split(IDS, groups=FORMULAS, n_test=10, n_train=8, seed=1)
    two = grouped_split(ids, groups=groups, n_test=10, n_train=8, seed=1)
    assert [IDS[i] for i in one.test] == [ids[i] for i in two.test]
    assert [IDS[i] for i in one.train] == [ids[i] for i in two.train]


def test_grouped_split_with_groups_larger_than_the_test_set_says_so():
    with pytest.raises(
        InputError, match="the smallest group has 30 structures, more than the 5 of the test set"
    ):
        grouped_split(IDS, groups=["CH4"] * 30, n_test=5, n_train=None, seed=0)


def test_hold_back_of_groups_cuts_between_two_of_them():
    split = grouped_split(IDS, groups=FORMULAS, n_test=6, n_train=None, seed=0)
    with_held_back = hold_back(split, share=0.3, groups=FORMULAS)
    assert not {FORMULAS[i] for i in with_held_back.train} & {
        FORMULAS[i] for i in with_held_back.held_back
    }
    assert 0 < with_held_back.held_back.size <= round(0.3 * split.train.size)


def test_split_by_test_ids_tests_on_the_ids_and_draws_the_others_by_the_seed():
    test_ids = ["crystal7", "crystal21", "crystal3"]
    split, other = (
        split_by_test_ids(IDS, test_ids=test_ids, n_train=11, seed=seed) for seed in (2, 3)
    )
    assert [IDS[i] for i in split.test] == [IDS[i] for i in other.test] == sorted(test_ids)
    training_ids = np.array(sorted(set(IDS) - set(test_ids)))
    order = np.random.default_rng(2).permutation(27)
    assert [IDS[i] for i in split.train] == list(training_ids[order][:11])
    assert split.train.tolist() != other.train.tolist()
    backwards = list(reversed(IDS))
    again = split_by_test_ids(backwards, test_ids=reversed(test_ids), n_train=11, seed=2)
    assert [backwards[i] for i in again.train] == [IDS[i] for i in split.train]
    assert sorted(
        [*split_by_test_ids(IDS, test_ids=test_ids, n_train=None, seed=0).train, *split.test]
    ) == list(range(30))


CRYSTALS = [k // 2 for k in range(30)]  # every crystal twice


def test_different_crystals_are_split_as_single_structures() -> None:
    ids = [f"s{k}" for k in range(30)]
    plain = permuted_split(ids, n_test=10, n_train=15, seed=3)
    split = permuted_split(ids, n_test=10, n_train=15, seed=3, crystals=list(range(30)))
    assert split.test.tolist() == plain.test.tolist()
    assert split.train.tolist() == plain.train.tolist()


@pytest.mark.parametrize("n_test", [10, 11])
def test_rows_of_a_crystal_are_on_one_side(n_test: int) -> None:
    ids = [f"s{k}" for k in range(30)]
    split = permuted_split(ids, n_test=n_test, n_train=None, seed=0, crystals=CRYSTALS)
    assert split.test.size == 10
    assert split.train.size == 20
    assert not {CRYSTALS[i] for i in split.test} & {CRYSTALS[i] for i in split.train}
    smaller = permuted_split(ids, n_test=n_test, n_train=7, seed=0, crystals=CRYSTALS)
    assert smaller.test.tolist() == split.test.tolist()
    assert smaller.train.tolist() == split.train.tolist()[:7]


def test_copies_of_named_test_structures_are_not_learned_from() -> None:
    ids = [f"s{k}" for k in range(30)]
    split = split_by_test_ids(ids, test_ids=["s0", "s5"], n_train=None, seed=0, crystals=CRYSTALS)
    assert sorted(split.test.tolist()) == [0, 5]
    assert sorted(split.train.tolist()) == [k for k in range(30) if k not in (0, 1, 4, 5)]
