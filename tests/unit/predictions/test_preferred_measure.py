"""The measure of the domain that the pages prefer follows from the documented benchmark."""

import re
from pathlib import Path

import pytest

from bandgap.predictions.preferred_measure import (
    MEASURED,
    MeasuredSet,
    preference_sentence,
    preferred_measure,
)

PAGE = Path(__file__).parents[3] / "docs/explanation/applicability.md"


def test_areas_are_those_of_the_table_in_the_documentation() -> None:
    rows = re.findall(
        r"^\| ([^|]+), n = \d+ \| [^|]+ \| [^|]+ \| ([0-9.]+) \| ([0-9.]+) \|",
        PAGE.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    documented = {name: (float(p), float(distance)) for name, p, distance in rows}
    measured = {
        one.name: (one.auroc_p, one.auroc_distance) for sets in MEASURED.values() for one in sets
    }
    assert measured == documented and len(measured) == 4


@pytest.mark.parametrize("features", ["descriptor", "unmeasured features"])
def test_distance_is_preferred_where_the_p_value_did_not_beat_it(features: str) -> None:
    assert preferred_measure(features) == "distance"
    assert preference_sentence(features).startswith("Read the distance first")


def test_p_value_is_preferred_with_a_source_network_and_the_set_it_lost_is_named() -> None:
    sentence = preference_sentence("source network")
    assert sentence.startswith("Read the p-value first")
    assert "0.94 and 0.97 on demo crystals with more nitrogen" in sentence


def test_nothing_is_claimed_of_features_that_were_not_measured() -> None:
    sentence = preference_sentence("unmeasured features")
    assert "not compared" in sentence and "better" not in sentence


@pytest.mark.parametrize(("loss", "expected"), [(0.05, "p-value"), (0.15, "distance")])
def test_p_value_is_preferred_where_its_mean_area_is_larger(loss: float, expected: str) -> None:
    sets = {"mixed": (MeasuredSet("a", 0.9, 0.8), MeasuredSet("b", 0.8 - loss, 0.8))}
    assert preferred_measure("mixed", sets) == expected
