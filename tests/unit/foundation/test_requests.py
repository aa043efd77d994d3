"""Requests: checked values, plain values, and command-line options."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from pydantic import Field

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.requests import Request, Setting


class Example(Request):
    execution: ClassVar[frozenset[str]] = frozenset({"n_jobs"})

    n: Annotated[int | None, Field(ge=1), Setting("Rows", "Rows.")] = None
    share: Annotated[float, Field(ge=0.0, lt=1.0), Setting("Share", "Share.")] = 0.0
    kind: Annotated[Literal["a", "b"], Setting("Kind", "Kind.", option="--sort")] = "a"
    fast: Annotated[bool, Setting("Fast", "Fast.")] = False
    widths: Annotated[tuple[int, ...] | None, Setting("Widths", "Widths.")] = None
    settings: Annotated[Mapping[str, Any], Setting("Settings", "Settings.", "--set")] = Field(
        default_factory=dict
    )
    hidden: Annotated[str, Setting("Hidden", "Hidden.", option=None)] = ""
    n_jobs: Annotated[int, Field(ge=1), Setting("Processes", "Processes.", "--jobs")] = 1


FULL = Example(
    n=3,
    share=0.25,
    kind="b",
    fast=True,
    widths=(8, 4),
    settings={"lam": 0.5, "name": "x"},
    n_jobs=2,
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"n": 0}, "n: found 0. Accepted: a whole number from 1 or none."),
        ({"n": 20.0}, "n: found 20.0. Accepted: a whole number from 1 or none."),
        ({"n": True}, "n: found True. Accepted: a whole number from 1 or none."),
        ({"share": 1.0}, "share: found 1.0. Accepted: a number from 0 to less than 1."),
        ({"share": float("nan")}, "share: found nan. Accepted: a number from 0 to less than 1."),
        ({"kind": "c"}, "kind: found 'c'. Accepted: a, b."),
        ({"fast": 1}, "fast: found 1. Accepted: true or false."),
        ({"widths": (1, "x")}, "widths: found 'x'. Accepted: whole numbers or none."),
        ({"colour": "red"}, "unknown setting 'colour'. Accepted: n, share, kind"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_request_with_a_wrong_value_is_refused_with_what_is_accepted(values, message):
    with pytest.raises(ConfigError) as error:
        Example(**values)
    assert str(error.value).startswith(message)
    with pytest.raises(ConfigError):
        Example(**values)


def test_request_accepts_numpy_numbers_and_lists():
    request = Example(n=np.int64(3), share=np.float32(0.25), widths=[8, 4])
    assert request == Example(n=3, share=0.25, widths=(8, 4))


def test_request_is_recovered_from_json():
    assert Example(**json.loads(json.dumps(FULL.to_values()))) == FULL


def test_work_leaves_out_defaults_and_fields_that_only_change_the_speed():
    assert Example(n=3, n_jobs=2).work == {"n": 3}
    assert Example(n=3).work == Example(n=3, n_jobs=8).work


def test_options_are_those_that_differ_from_the_defaults():
    assert Example().command_options() == []
    assert FULL.command_options() == [
        ("--n", "3"),
        ("--share", "0.25"),
        ("--sort", "b"),
        ("--fast", ""),
        ("--widths", "8,4"),
        ("--set", "lam=0.5"),
        ("--set", "name=x"),
        ("--jobs", "2"),
    ]
