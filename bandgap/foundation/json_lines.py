"""Files of JSON lines, to which long comparisons append each fit, and from which they resume."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import InputError

T = TypeVar("T")


def append_line(path: Path, values: Mapping[str, Any]) -> None:
    """Append one line to a file, which is created if it does not exist."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values) + "\n")


def read_lines(path: Path, build: Callable[[dict[str, Any]], T], *, what: str) -> list[T]:
    """Return `build(values)` for every line; an empty list if there is no file.

    Raises InputError if a line is damaged. `what` says in the message what a line contains.
    """
    built = []
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            built.append(build(parse_json(line, what="line")))
        except DAMAGE as error:
            raise InputError(
                f"{path}, line {number}: no {what} ({error}). Remove the line, or the file."
            ) from error
    return built
