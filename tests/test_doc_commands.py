"""Commands in README and documentation exist, with their options."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from bandgap.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
BLOCK = re.compile(r"^ *```(?:shell|sh)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|&&) *(?:[A-Z_]+=\S+ +)*bandgap (.+)$", re.MULTILINE)


@cache
def options_of_commands() -> dict[str, set[str]]:
    """Return the options of each command by its name, such as "data fetch"."""
    options: dict[str, set[str]] = {}

    def collect(group: Any, prefix: str) -> None:
        for name, command in group.commands.items():
            full_name = f"{prefix}{name}"
            if hasattr(command, "commands"):
                collect(command, f"{full_name} ")
                continue
            parameters = command.params
            options[full_name] = {o for p in parameters for o in (*p.opts, *p.secondary_opts)}

    collect(typer.main.get_command(app), "")
    return options


def commands_of(text: str) -> list[list[str]]:
    """Return the arguments of each call of `bandgap` in shell blocks."""
    blocks = (block.replace("\\\n", " ") for block in BLOCK.findall(text))
    calls = (call for block in blocks for call in CALL.findall(block))
    return [shlex.split(call, comments=True) for call in calls]


def problems_of(words: list[str]) -> list[str]:
    """Return messages about a command or options that do not exist."""
    options = options_of_commands()
    name = next((n for n in (" ".join(words[:2]), words[0]) if n in options), None)
    if name is None:
        return [f"bandgap {words[0]}: no such command"]
    used = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [
        f"bandgap {name} {option}: no such option" for option in used if option not in options[name]
    ]


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_commands_of_a_page_exist_with_their_options(path: Path) -> None:
    commands = commands_of(path.read_text(encoding="utf-8"))
    assert [problem for words in commands for problem in problems_of(words)] == []


def test_wrong_command_and_wrong_option_are_reported() -> None:
    text = (
        "```shell\n"
        "BANDGAP_ENGINE=dask bandgap predict --modle run \\\n    --out x.csv\n"
        "bandgap train\n"
        "```\n"
    )
    problems = [problem for words in commands_of(text) for problem in problems_of(words)]
    assert problems == ["bandgap predict --modle: no such option", "bandgap train: no such command"]


def test_commands_are_read_from_the_pages() -> None:
    assert sum(len(commands_of(page.read_text(encoding="utf-8"))) for page in PAGES) > 30
