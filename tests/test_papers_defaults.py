"""Each default is that of the paper, or the docstring of the settings says why it is not.

`papers_defaults.csv` has the papers' defaults; an empty cell is one that the paper does not state.
A default that differs has in its entry of the docstring a sentence of one of the forms

    The paper has 6; 12 because ...
    The paper does not state it; 4 because ...

with the value of the table and the default, so that the sentence cannot outlive either. A field may
be nested: `training.patience` is the patience of the default of `training`, with its reason there.

Each transfer method has a row for its settings. Where the paper states no default, or there is no
paper, the row has no field, "own" as the paper's value, and the reason as its source. Where the
defaults are those of a nested class, it has "nested", and the class as its source.
"""

import ast
import csv
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bandgap.transfer import METHODS

TABLE = Path(__file__).with_name("papers_defaults.csv")
with TABLE.open(newline="", encoding="utf-8") as _file:
    _ROWS = list(csv.DictReader(_file))
ROWS = [row for row in _ROWS if row["field"]]
WITHOUT_FIELD = [row for row in _ROWS if not row["field"]]


def settings_class(path: str) -> type:
    """Return the class of `module:Class`."""
    module, _, name = path.partition(":")
    settings: type = getattr(importlib.import_module(module), name)
    return settings


def default_of(settings: type, name: str) -> Any:
    """Return the default of a field; raises KeyError if the class has no such field."""
    first, _, nested = name.partition(".")
    fields = {field.name: field for field in dataclasses.fields(settings)}
    default = fields[first].default
    return getattr(default, nested) if nested else default


def is_equal(paper: str, default: Any) -> bool:
    """Return whether the table's text is the default; a text that is no literal never is."""
    try:
        value = ast.literal_eval(paper)
    except (ValueError, SyntaxError):
        return False
    if isinstance(default, tuple):
        return bool(tuple(value) == default)
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def as_text(value: Any) -> str:
    """Return a default as docstrings write it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def entries(docstring: str) -> dict[str, str]:
    """Return the entries of a NumPy docstring's parameters on one line each, by name."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(docstring).splitlines():
        if re.fullmatch(r"\w+(, \w+)*", line):
            names = line.split(", ")
        elif line.startswith("    "):
            for name in names:
                texts[name] = f"{texts.get(name, '')} {line.strip()}"
        elif line:
            names = []
    return texts


def docstrings(settings: type) -> Iterator[str]:
    """Yield the docstrings of a class and of the classes that it inherits fields from."""
    for kind in settings.__mro__:
        if dataclasses.is_dataclass(kind) and kind.__doc__:
            yield kind.__doc__


def entry_of(settings: type, name: str) -> str:
    """Return the entry of a field in the first docstring that has one."""
    return next((e[name] for d in docstrings(settings) if name in (e := entries(d))), "")


def problem(settings: type, name: str, paper: str) -> str:
    """Return what is wrong with a row, or an empty text."""
    default = default_of(settings, name)
    entry = entry_of(settings, name.partition(".")[0])
    if paper and is_equal(paper, default):
        is_stale = "The paper has" in entry or "The paper does not state it" in entry
        return f"{name} has the paper's default, and its entry says otherwise" if is_stale else ""
    opening = f"The paper has {paper};" if paper else "The paper does not state it;"
    sentence = f"{opening} {as_text(default)} because "
    if sentence not in entry:
        return f"the entry of {name} lacks the sentence {sentence!r}"
    return ""


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{row['settings'].partition(':')[2]}.{row['field']}" for row in ROWS]
)
def test_a_default_is_that_of_the_paper_or_has_a_reason(row: dict[str, str]) -> None:
    assert not problem(settings_class(row["settings"]), row["field"], row["paper"])


@pytest.mark.parametrize("name", METHODS)
def test_each_transfer_method_is_in_the_table(name: str) -> None:
    config = METHODS[name].config
    assert f"{config.__module__}:{config.__name__}" in {row["settings"] for row in _ROWS}


@pytest.mark.parametrize(
    "row", WITHOUT_FIELD, ids=[row["settings"].partition(":")[2] for row in WITHOUT_FIELD]
)
def test_a_method_without_a_default_of_a_paper_says_why(row: dict[str, str]) -> None:
    settings = settings_class(row["settings"])
    assert dataclasses.is_dataclass(settings)
    if row["paper"] == "nested":
        assert row["source"] in {other["settings"].partition(":")[2] for other in ROWS}
    else:
        assert row["paper"] == "own"
        assert len(row["source"].split()) > 5


def test_the_table_names_each_default_once_and_its_source() -> None:
    names = [(row["settings"], row["field"]) for row in _ROWS]
    assert len(set(names)) == len(names)
    assert all(row["source"] for row in _ROWS)


@dataclasses.dataclass
class Example:
    """Settings to check the check with.

    Parameters
    ----------
    equal
        No note.
    stale
        The paper has 3; 4 because it was so once.
    differs
        A number. The paper has 6; 1,200 because it
        is longer.
    silent
        The paper does not state it; 0.5 because a half is simple.
    unexplained, other
        Two numbers.
    """

    equal: int = 3
    stale: int = 3
    differs: int = 1200
    silent: float = 0.5
    unexplained: int = 2
    other: bool = True


@pytest.mark.parametrize(
    ("name", "paper", "expected"),
    [
        ("equal", "3", ""),
        ("differs", "6", ""),
        ("silent", "", ""),
        ("stale", "3", "its entry says otherwise"),
        ("differs", "7", "lacks the sentence 'The paper has 7; 1,200 because '"),
        ("unexplained", "", "lacks the sentence 'The paper does not state it; 2 because '"),
        ("other", "1", "lacks the sentence 'The paper has 1; True because '"),
        ("other", "1 to 2", "lacks the sentence"),
    ],
)
def test_a_missing_a_stale_and_another_papers_reason_are_found(
    name: str, paper: str, expected: str
) -> None:
    message = problem(Example, name, paper)
    assert expected in message if expected else message == ""


def test_a_field_that_was_renamed_is_an_error() -> None:
    with pytest.raises(KeyError):
        problem(Example, "renamed", "1")
