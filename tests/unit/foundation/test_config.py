"""Settings to plain values and back, and messages for values that are not accepted."""

import json
import math
from dataclasses import dataclass, field
from typing import Literal

import pytest

from bandgap.foundation.config import fingerprint, from_dict, to_dict
from bandgap.foundation.errors import ConfigError


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    steps: int = 3


@dataclass(frozen=True)
class Outer:
    name: str
    widths: tuple[int, ...] = (8, 4)
    mode: Literal["fast", "slow"] = "fast"
    on: bool = True
    inner: Inner = field(default_factory=Inner)
    extra: Inner | None = None


FULL = Outer("a", (3,), "slow", False, Inner(0.1, 2), Inner(1.0, 7))


def test_settings_are_recovered_from_json():
    assert from_dict(Outer, json.loads(json.dumps(to_dict(FULL)))) == FULL


def test_absent_settings_keep_their_defaults():
    assert from_dict(Outer, {"name": "a", "inner": {"steps": 9}}) == Outer("a", inner=Inner(0.5, 9))


def test_whole_number_for_a_float_becomes_a_float():
    assert isinstance(from_dict(Inner, {"rate": 2}).rate, float)


def test_none_for_a_float_is_not_a_number():
    assert math.isnan(from_dict(Inner, {"rate": None}).rate)


@pytest.mark.parametrize(
    "values, text",
    [
        (
            {"name": "a", "colour": 1},
            "run: unknown setting 'colour'. Accepted: extra, inner, mode, name, on, widths.",
        ),
        (
            {"name": "a", "inner": {"speed": 1}},
            "run.inner: unknown setting 'speed'. Accepted: rate, steps.",
        ),
        ({}, "run: setting 'name' is missing."),
        ({"name": 3}, "run.name: found 3. Accepted: text."),
        ({"name": "a", "mode": "odd"}, "run.mode: found 'odd'. Accepted: fast, slow."),
        ({"name": "a", "on": 1}, "run.on: found 1. Accepted: true or false."),
        (
            {"name": "a", "inner": {"rate": "abc"}},
            "run.inner.rate: found 'abc'. Accepted: a number.",
        ),
        ({"name": "a", "inner": {"rate": True}}, "run.inner.rate: found True. Accepted: a number."),
        (
            {"name": "a", "inner": {"steps": 2.5}},
            "run.inner.steps: found 2.5. Accepted: a whole number.",
        ),
        (
            {"name": "a", "inner": {"steps": None}},
            "run.inner.steps: found None. Accepted: a whole number.",
        ),
        ({"name": "a", "inner": 4}, "run.inner: found 4. Accepted: settings by name."),
        ({"name": "a", "widths": 4}, "run.widths: found 4. Accepted: whole numbers."),
        ({"name": "a", "widths": [4, "x"]}, "run.widths: found 'x'. Accepted: whole numbers."),
    ],
    ids=str,
)
def test_wrong_value_is_refused_with_its_place(values, text):
    with pytest.raises(ConfigError) as refused:
        from_dict(Outer, values, where="run")
    assert str(refused.value) == text


def test_fingerprint_depends_on_values_and_not_on_order():
    assert fingerprint({"a": 1, "b": [2.0]}) == fingerprint({"b": [2.0], "a": 1})
    assert fingerprint(FULL) == fingerprint(to_dict(FULL))
    assert fingerprint(FULL) != fingerprint(Outer("b"))
    assert len(fingerprint(FULL)) == 16
