"""Distances of the distributions of simple properties between two sets of molecules."""

import pytest

from bandgap.proposals.properties import PROPERTIES, property_distances, property_values


def test_values_of_benzene_are_those_of_its_formula() -> None:
    values = property_values(["c1ccccc1", "CCO"])
    assert values["molar mass"] == pytest.approx([78.114, 46.069], abs=0.001)
    assert values["rings"].tolist() == [1.0, 0.0]
    assert values["polar surface"] == pytest.approx([0.0, 20.23], abs=0.01)


def test_distances_are_zero_for_equal_sets_and_one_for_separate_ones() -> None:
    rings = ["c1ccccc1", "c1ccncc1"]
    assert set(property_distances(rings, rings[::-1]).values()) == {0.0}
    distances = property_distances(rings, ["CC", "CCC"])
    assert set(distances) == set(PROPERTIES)
    assert distances["rings"] == 1.0
    assert distances["molar mass"] == 1.0
    assert property_distances(rings, ["c1ccccc1", "CC"])["rings"] == 0.5
