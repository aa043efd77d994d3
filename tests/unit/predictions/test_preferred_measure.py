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
        r"^\| ([^|]+), n = \d+ \| [^|]+ \| ([0-9.]+) \| ([0-9.]+) \|",
        PAGE.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    documented = {name: (float(p), float(distance)) for name, p, distance in rows}
    measured = {
        one.name: (one.auroc_p, one.auroc_distance) for sets in MEASURED.values() for one in sets
    }
    assert measured == documented and len(measured) == 3


@pytest.mark.parametrize("features", [*MEASURED, "unmeasured features"])
def test_distance_is_preferred_where_the_p_value_did_not_beat_it(features: str) -> None:
    assert preferred_measure(features) == "distance"
    assert preference_sentence(features).startswith("Read the distance first")


def test_nothing_is_claimed_of_features_that_were_not_measured() -> None:
    sentence = preference_sentence("unmeasured features")
    assert "not compared" in sentence and "better" not in sentence


def test_p_value_is_preferred_only_where_it_was_better_on_every_set() -> None:
    better = MeasuredSet("a", 0.9, 0.8)
    sets = {"better": (better,), "mixed": (better, MeasuredSet("b", 0.7, 0.8))}
    assert preferred_measure("better", sets) == "p-value"
    assert preferred_measure("mixed", sets) == "distance"
    assert "0.80 against 0.90 on a" in preference_sentence("better", sets)
