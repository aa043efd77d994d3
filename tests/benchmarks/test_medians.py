"""Medians of repeated measurements."""

from benchmarks.medians import medians


def test_medians_of_nested_figures_keep_equal_values():
    first = {
        "name": "a",
        "n": 10,
        "sides": {"ours": {"s": 1.0}, "theirs": {"s": 5.0, "networks": 3.0}},
        "each": [4, 9],
    }
    second = {
        "name": "a",
        "n": 10,
        "sides": {"ours": {"s": 9.0}, "theirs": {"s": 4.0}},
        "each": [6, 1],
    }
    third = {
        "name": "a",
        "n": 10,
        "sides": {"ours": {"s": 2.0}, "theirs": {"s": 6.0, "networks": 5.0}},
        "each": [5, 2],
    }
    assert medians([first, second, third]) == {
        "name": "a",
        "n": 10,
        "sides": {"ours": {"s": 2.0}, "theirs": {"s": 5.0, "networks": 4.0}},
        "each": [5, 2],
    }
