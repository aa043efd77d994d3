"""The nesting depth of JSON text, and that deep text never reaches the end of the stack."""

import gc
import json
import random
from collections.abc import Callable, Iterator

import pytest

from bandgap.foundation.damage import MAX_NESTING, nesting_depth
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.jobs.service.requests import RequestOptions, request_from_json
from bandgap.structures.draft import Unreadable
from bandgap.structures.formats.json_values import parse_json
from bandgap.structures.formats.optimade import read_optimade
from bandgap.structures.records import Limits


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0),
        ("3", 0),
        ("[]", 1),
        ('{"a": [1, [2]], "b": {}}', 3),
        ("[[],[[]]]", 3),
        ('["[[[", "{"]', 1),
        (r'["a\"[[", [1]]', 2),
        (r'["\\", [[]]]', 3),
        ('["cut off [[[', 1),
        ("[[[[", 4),
        ("]]]][[", 0),
        ("{" * 5_000, 5_000),
    ],
)
def test_depth_of_json_text(text: str, depth: int) -> None:
    assert nesting_depth(text) == depth


def depth_of_value(value: object) -> int:
    """Return the nesting depth of a parsed value."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of_value, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of_value, value), default=0)
    return 0


def random_value(random_numbers: random.Random, depth: int) -> object:
    """Return lists, objects and strings of brackets and quotes, nested at most `depth` deep."""
    kind = random_numbers.randrange(4 if depth else 2)
    if kind == 0:
        return "".join(random_numbers.choices('[]{}"\\ab,:', k=6))
    if kind == 1:
        return random_numbers.random()
    values = [random_value(random_numbers, depth - 1) for _ in range(random_numbers.randrange(4))]
    return values if kind == 2 else {f'{k}"[{{': value for k, value in enumerate(values)}


def test_depth_of_json_text_is_that_of_the_parsed_value() -> None:
    random_numbers = random.Random(0)
    for _ in range(300):
        value = random_value(random_numbers, 6)
        assert nesting_depth(json.dumps(value)) == depth_of_value(value)


def descend(levels: int) -> None:
    """Use `levels` frames of the stack."""
    if levels:
        descend(levels - 1)


@pytest.fixture
def recursion_errors() -> Iterator[list[str]]:
    """Collect runs of the garbage collector for which the stack had no 20 frames left.

    The collector runs at every third allocation.
    """
    errors: list[str] = []
    thresholds = gc.get_threshold()

    def callback(phase: str, info: dict[str, int]) -> None:
        try:
            descend(20)
        except RecursionError:
            errors[:0] = [phase]  # not errors.append: no call is possible here

    gc.callbacks.append(callback)
    gc.set_threshold(2, 10_000, 10_000)
    yield errors
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(callback)


def parse_as_service(text: str) -> None:
    limits = ServiceLimits()
    with pytest.raises(Refusal, match="nested deeper"):
        request_from_json(text.encode(), RequestOptions(), name="", baselines="", limits=limits)


def parse_as_optimade(text: str) -> None:
    with pytest.raises(Unreadable, match="nested deeper|maximum recursion"):
        list(read_optimade(text, limits=Limits()))


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"data":'])
@pytest.mark.parametrize("parse", [parse_as_service, parse_as_optimade])
def test_destructors_have_stack_while_deep_json_is_refused(
    recursion_errors: list[str], parse: Callable[[str], None], opening: str
) -> None:
    parse(opening * 2_000)
    assert recursion_errors == []


def test_json_at_the_limit_is_parsed() -> None:
    text = "[" * MAX_NESTING + "]" * MAX_NESTING
    assert parse_json(text) == json.loads(text)
    with pytest.raises(Unreadable, match="nested deeper"):
        parse_json(f"[{text}]")
