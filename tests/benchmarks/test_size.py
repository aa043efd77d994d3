"""Tokens of code: what counts, and that packing and documenting do not change them."""

from pathlib import Path

import pytest

from benchmarks.commands.size import sizes_of, tokens_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1\n", 3),
        ("a = 1; b = 2\n", 7),
        ('"""A long sentence in a docstring."""\n', 1),
        ("# a comment\n\n\na = (\n    1\n)  # another\n", 5),
    ],
    ids=["assignment", "packed", "docstring", "comments"],
)
def test_names_numbers_operators_and_strings_are_counted(
    tmp_path: Path, text: str, expected: int
) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    assert tokens_of(path) == expected


def test_core_and_shelf_are_summed_apart(tmp_path: Path) -> None:
    for name, text in (
        ("bandgap/__init__.py", "a\n"),
        ("bandgap/runs/one.py", "a = 1\n"),
        ("bandgap/research/methods/two.py", "b\n"),
        ("app/views/three.py", "c\n"),
        ("tests/test_four.py", "d\n"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert sizes_of(tmp_path) == {
        "app": 1,
        "bandgap": 1,
        "bandgap/research": 1,
        "bandgap/runs": 3,
        "core": 5,
        "core and shelf": 6,
        "tests": 1,
    }
