"""The rule for names: no value, function or class is called by a participle or pronoun alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bandgap", "app", "benchmarks", "data/making", "docs", "tests")

# Words that say nothing about a value without a noun. `kept_draws` and `left_edge` are fine.
VAGUE_NAMES = {
    "anew",
    "asked",
    "begun",
    "beside",
    "chosen",
    "each",
    "few",
    "found",
    "given",
    "gone",
    "held",
    "here",
    "kept",
    "known",
    "left",
    "lost",
    "made",
    "meant",
    "named",
    "needed",
    "others",
    "own",
    "rest",
    "said",
    "seen",
    "shown",
    "such",
    "taken",
    "there",
    "these",
    "those",
    "told",
    "wanted",
    "whole",
}


def name_defined_by(node: ast.AST) -> str | None:
    """The name that a node of a syntax tree gives to a value, function or class, if any."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.arg(arg=name) | ast.alias(asname=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
        case ast.MatchMapping(rest=name):
            return name
        case _:
            return None


def vague_names(source: str) -> list[tuple[int, str]]:
    """Line and name of every definition in a text of Python whose whole name is vague, in order.

    Underscores at the ends of a name do not make it another name.
    """
    definitions: set[tuple[int, str]] = set()
    for node in ast.walk(ast.parse(source)):
        name = name_defined_by(node)
        if name is not None and name.strip("_") in VAGUE_NAMES:
            definitions.add((node.lineno, name))
    return sorted(definitions)


def checked_files() -> Iterator[Path]:
    """Python files of FOLDERS without build products."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            is_built = not {"_build", "__pycache__"}.isdisjoint(path.parts)
            if not is_built:
                yield path


def test_names_in_all_folders_are_not_vague() -> None:
    table = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in checked_files()
        for line, name in vague_names(path.read_text(encoding="utf-8"))
    ]
    assert not table, "say what these are (matching_rows, not found):\n" + "\n".join(table)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "found: int = 1",
        "found += 1",
        "_found = 1",
        "found_ = 1",
        "first, *found = rows",
        "self.found = 1",
        "class Result:\n    found: int",
        "for found in rows: pass",
        "[found for found in rows]",
        "(found := 1)",
        "with open(path) as found: pass",
        "import numpy as found",
        "def search(found): pass",
        "def search(*found): pass",
        "def search(*, found=None): pass",
        "lambda found: 1",
        "def found(): pass",
        "async def found(): pass",
        "class found: pass",
        "try: pass\nexcept ValueError as found: pass",
        "match rows:\n    case [1, *found]: pass",
        "match rows:\n    case {'a': 1, **found}: pass",
        "match rows:\n    case found: pass",
    ],
)
def test_vague_name_is_reported_however_it_is_defined(source: str) -> None:
    names = {name.strip("_") for _, name in vague_names(source)}
    assert names == {"found"}


@pytest.mark.parametrize(
    "source",
    [
        "found_rows = 1",
        "left_edge = 1",
        "print(found)",
        "print(self.found)",
        "search(found=1)",
        "'found = 1'",
        "# found = 1",
        "Found = 1",
        "match rows:\n    case _: pass",
    ],
)
def test_other_names_and_uses_are_not_reported(source: str) -> None:
    assert vague_names(source) == []


def test_report_gives_line_and_name_in_the_order_of_the_text() -> None:
    source = "rows = 1\n\ndef select(kept):\n    left = kept\n    return left\n"
    assert vague_names(source) == [(3, "kept"), (4, "left")]
